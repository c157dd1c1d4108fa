package accept

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// alias sets a name for the model here and wants it understood at every entry, also once it was switched and reverted; then
// it is taken away again.
func (r *run) alias(ctx context.Context, m Model) (Outcome, string) {
	names, err := r.others(ctx)
	if err != nil {
		return Fail, err.Error()
	}
	var random [4]byte
	rand.Read(random[:]) // never fails
	name := "accept-" + hex.EncodeToString(random[:])
	done, err := r.rename(ctx, append([]string{""}, names...), name, m)
	// It goes also when the caller has given up meanwhile.
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	gone := r.change(bye, http.MethodDelete, "/api/aliases/"+name, nil)
	switch {
	case err != nil:
		return Fail, err.Error()
	case gone != nil:
		return Fail, "removing it: " + gone.Error()
	}
	return Pass, fmt.Sprintf("a name set here was understood at %s, %sand removed", listed(append([]string{"this node"}, names...)), done)
}

// rename lets the name lead to the model, to another one of this machine if there is one, and back.
func (r *run) rename(ctx context.Context, entries []string, name string, m Model) (done string, err error) {
	if err := r.change(ctx, http.MethodPost, "/api/aliases", map[string]string{"name": name, "target": m.Name}); err != nil {
		return "", fmt.Errorf("setting it: %w", err)
	}
	if err := r.understood(ctx, entries, name, m.Name); err != nil {
		return "", err
	}
	for _, other := range r.cfg.Models {
		if other.Name == m.Name || other.kind() != Chat {
			continue
		}
		if err := r.change(ctx, http.MethodPost, "/api/aliases", map[string]string{"name": name, "target": other.Name}); err != nil {
			return "", fmt.Errorf("switching it to %s: %w", other.Name, err)
		}
		if err := r.understood(ctx, entries, name, other.Name); err != nil {
			return "", err
		}
		if err := r.change(ctx, http.MethodPost, "/api/aliases/"+name+"/revert", nil); err != nil {
			return "", fmt.Errorf("reverting it: %w", err)
		}
		return "switched to " + other.Name + ", reverted ", r.understood(ctx, entries, name, m.Name)
	}
	return "", nil
}

// change asks the node to change a name.
func (r *run) change(ctx context.Context, method, path string, body any) error {
	a, err := r.send(ctx, method, path, body)
	if err == nil && a.status/100 != 2 {
		err = errors.New(a.fault())
	}
	return err
}

// understood asks for the name at each entry once it is known there to lead to target.
func (r *run) understood(ctx context.Context, entries []string, name, target string) error {
	for _, entry := range entries {
		if err := r.heard(ctx, entry, name, target); err != nil {
			return fmt.Errorf("%s does not know a name that was set here: %w", at(entry), err)
		}
		asked, cancel := context.WithTimeout(ctx, askWithin)
		a, err := r.send(asked, http.MethodPost, path(entry, completions), message(name, "Say the word alias."))
		cancel()
		switch {
		case err != nil:
			return fmt.Errorf("asking %s by the name: %w", at(entry), err)
		case a.status != http.StatusOK:
			return fmt.Errorf("asking %s by the name: %s", at(entry), a.fault())
		case a.header.Get("X-Viiwork-Model") != target || a.header.Get("X-Viiwork-Alias") != name:
			return fmt.Errorf("asking %s by the name ran %q, not %s", at(entry), a.header.Get("X-Viiwork-Model"), target)
		}
	}
	return nil
}

// heard waits until the entry has heard where the name leads.
func (r *run) heard(ctx context.Context, entry, name, target string) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for before := error(nil); ; {
		var got struct {
			Viiwork struct {
				AliasOf string `json:"alias_of"`
			} `json:"viiwork"`
		}
		err := r.get(ctx, entry, "/v1/models/"+name, &got)
		switch to := got.Viiwork.AliasOf; {
		case err == nil && to == target:
			return nil
		case err == nil:
			err = fmt.Errorf("it leads to %q there, not to %s", to, target)
		}
		if ctx.Err() != nil {
			return cmp.Or(before, err) // the last look was cut short and tells nothing
		}
		before = err
		pause(ctx, 300*time.Millisecond)
	}
}

func at(entry string) string {
	if entry == "" {
		return "this node"
	}
	return entry
}
