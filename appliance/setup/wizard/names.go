package wizard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// compareNames looks whether the mesh knows one of the chosen files under another name: two names for one model would
// keep requests for it apart.
func (w *Wizard) compareNames(ctx context.Context) error {
	if w.Digest == nil || w.DryRun || len(w.a.Models) == 0 {
		return nil
	}
	known := w.knownNames(ctx)
	for i := range w.a.Models {
		m := &w.a.Models[i]
		if len(known) == 0 || slices.ContainsFunc(known, func(k namedFile) bool { return k.name == m.Name }) {
			continue
		}
		path := m.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.a.ModelsDir, path)
		}
		digest, err := w.Digest(ctx, path)
		at := slices.IndexFunc(known, func(k namedFile) bool { return k.digest == digest })
		if err != nil || at < 0 || w.a.has(known[at].name) {
			continue
		}
		choice, err := w.Prompt.Choose(ctx, Question{
			Title:   fmt.Sprintf("The mesh has %s already, and calls it %s. Which name does it get here?", filepath.Base(path), known[at].name),
			Help:    "Only machines with the same name for it share its requests.",
			Options: []string{known[at].name, m.Name},
		})
		if err != nil {
			return err
		}
		if choice == 0 {
			m.Name = known[at].name
		}
	}
	return nil
}

// namedFile is a model file as the mesh knows it.
type namedFile struct{ name, digest string }

// askedWithin bounds what one member is given to answer in; a few are asked at the most.
const (
	askedWithin = 5 * time.Second
	askedMost   = 4
	maxModels   = 4 << 20
)

// knownNames asks members that can be found, until one answers.
func (w *Wizard) knownNames(ctx context.Context) []namedFile {
	for i, address := range w.someAddresses(ctx) {
		if i == askedMost {
			break
		}
		if known, err := w.askMember(ctx, address); err == nil {
			return known
		}
	}
	return nil
}

// someAddresses gives the network a moment to say who is there: seeds are looked up, and devices told of one another.
func (w *Wizard) someAddresses(ctx context.Context) []string {
	if w.device == nil {
		return nil
	}
	for end := time.Now().Add(heardWithin); len(w.addresses()) == 0 && ctx.Err() == nil && time.Now().Before(end); {
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
	return w.addresses()
}

// addresses are where members' APIs may be.
func (w *Wizard) addresses() (all []string) {
	port := strconv.Itoa(max(w.a.API.Port, 0))
	if port == "0" {
		port = "8086"
	}
	if w.device != nil {
		for _, p := range w.device.Peers() {
			for _, addr := range p.Addrs {
				own := port
				if p.APIPort > 0 {
					own = strconv.Itoa(p.APIPort)
				}
				all = append(all, net.JoinHostPort(addr.String(), own))
			}
		}
	}
	return all
}

// askMember asks one for its models. It is a stranger: what it says is bounded, and only compared and shown.
func (w *Wizard) askMember(ctx context.Context, address string) ([]namedFile, error) {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	client := http.Client{
		Transport:     &http.Transport{DialContext: w.device.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			Viiwork struct {
				AliasOf string `json:"alias_of"`
				Hosts   []struct {
					Digest string `json:"digest"`
				} `json:"hosts"`
			} `json:"viiwork"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxModels)).Decode(&list); err != nil {
		return nil, err
	}
	var known []namedFile
	for _, m := range list.Data {
		if m.Viiwork.AliasOf != "" || !plainName(m.ID) {
			continue
		}
		for _, h := range m.Viiwork.Hosts {
			if h.Digest != "" {
				known = append(known, namedFile{m.ID, h.Digest})
			}
		}
	}
	return known, nil
}

// plainName reports whether a name can be shown and written as it is.
func plainName(name string) bool {
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || r == '"' || r == '\'' {
			return false
		}
	}
	return name != "" && len(name) <= 128
}
