package mesh

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	aliasesPath = "/v1/aliases"
	fetchWithin = 5 * time.Second // one try
	fetchTries  = 3
	fetchAtOnce = 4 // tables, however many members have one
	// A member is left in peace after each answer, for longer if it had no news: whoever gossips can say that it has.
	restBriefly = 100 * time.Millisecond
	restAfter   = 500 * time.Millisecond
)

// fetch asks a member for its table, unless it is being asked: then again when that is over.
func (h *Herald) fetch(ctx context.Context, wg *sync.WaitGroup, id string) {
	if _, asked := h.fetching[id]; asked {
		h.fetching[id] = true
		return
	}
	for _, m := range h.cfg.Members() {
		if m.ID != id || id == h.cfg.ID {
			continue
		}
		h.fetching[id] = false
		wg.Go(func() {
			f := h.fetchFrom(ctx, m)
			select {
			case h.done <- f:
			case <-ctx.Done():
			}
		})
		return
	}
}

// fetchFrom asks until it has an answer, and rests.
func (h *Herald) fetchFrom(ctx context.Context, m Member) fetched {
	f := fetched{member: m}
	for try := range fetchTries {
		if try > 0 && !pause(ctx, time.Second<<(try-1)) {
			break
		}
		if f.gained, f.more, f.err = h.ask(ctx, m); f.err == nil {
			break
		}
	}
	if f.gained {
		pause(ctx, restBriefly)
	} else {
		pause(ctx, restAfter)
	}
	return f
}

// ask takes over a member's table if it is another one than this node's.
func (h *Herald) ask(ctx context.Context, m Member) (gained, more bool, err error) {
	select {
	case h.limit <- struct{}{}:
		defer func() { <-h.limit }()
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	resp, err := h.cfg.Client.send(ctx, m, outgoing{
		method: http.MethodGet, url: url.URL{Path: aliasesPath},
		header: http.Header{"If-None-Match": {h.cfg.Aliases.view.Load().tag()}},
	})
	if err != nil {
		return false, false, fmt.Errorf("fetching aliases: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return false, false, nil
	case http.StatusOK:
	default:
		return false, false, fmt.Errorf("fetching aliases: the member answers %d", resp.StatusCode)
	}
	theirs, err := readAliases(resp.Body)
	if err != nil {
		return false, false, err
	}
	gained, more = h.cfg.Aliases.merge(theirs)
	return gained, more, nil
}

// tag is the digest as an entity tag.
func (v *aliasView) tag() string {
	return `"` + base64.RawURLEncoding.EncodeToString(v.digest[:]) + `"`
}

// ServeHTTP answers GET /v1/aliases: the whole table, removed ones included.
func (h *Herald) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, _, err := h.cfg.Verifier.admit(r); err != nil {
		WriteRefusal(w, err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		WriteError(w, http.StatusMethodNotAllowed, "method_not_allowed", "the aliases are read with GET")
		return
	}
	v := h.cfg.Aliases.view.Load()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("ETag", v.tag())
	if r.Header.Get("If-None-Match") == v.tag() {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", typeReport)
	_, _ = w.Write(v.document) // the asker may have gone
}
