package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	lookLimit  = 10 * time.Second // an entry's time to say what it has
	modelLimit = 4 << 20          // bytes of that
)

// listed is a model as GET /v1/models has it.
type listed struct {
	ID      string `json:"id"`
	Context int    `json:"context_length"`
	Viiwork struct {
		AliasOf string `json:"alias_of"`
	} `json:"viiwork"`
}

// look asks an entry what models it has.
func (c *client) look(ctx context.Context, entry string) ([]listed, error) {
	var list struct {
		Data []listed `json:"data"`
	}
	if err := c.document(ctx, entry+"/v1/models", nil, &list); err != nil {
		return nil, err
	}
	return list.Data, nil
}

// document asks for a small JSON answer: with POST if there is a body.
func (c *client) document(ctx context.Context, url string, body []byte, v any) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal{resp.StatusCode, 0}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, modelLimit))
	if err != nil {
		return err
	}
	if json.Unmarshal(text, v) != nil {
		return errors.New("its answer is no JSON, or too long")
	}
	return nil
}

// survey asks all entries and decides on those to use, the model, and the least context it has anywhere.
func (c *client) survey(ctx context.Context, cfg *Config) (room int, err error) {
	found, faults := make([][]listed, len(cfg.Entries)), make([]error, len(cfg.Entries))
	var looks sync.WaitGroup
	for i, entry := range cfg.Entries {
		looks.Go(func() { found[i], faults[i] = c.look(ctx, entry) })
	}
	looks.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	var alive []string
	var models []listed
	for i, entry := range cfg.Entries {
		switch {
		case faults[i] == nil:
			alive = append(alive, entry)
			models = append(models, found[i]...)
		case !cfg.SkipDead:
			return 0, fmt.Errorf("asking the entry %s what models it has: %w", entry, faults[i])
		}
	}
	if len(alive) == 0 {
		return 0, errors.New("no entry answers: name those that do with --entry")
	}
	cfg.Entries = alive
	if cfg.Model == "" {
		if cfg.Model, err = only(models); err != nil {
			return 0, err
		}
	}
	c.model = cfg.Model
	return roomOf(models, cfg.Model)
}

// only is the one model there is.
func only(models []listed) (string, error) {
	var names []string
	for _, m := range models {
		if m.Viiwork.AliasOf == "" && m.ID != "" && !slices.Contains(names, m.ID) {
			names = append(names, m.ID)
		}
	}
	switch len(names) {
	case 0:
		return "", errors.New("the entries have no model: start a node that has one")
	case 1:
		return names[0], nil
	}
	slices.Sort(names)
	return "", fmt.Errorf("there are several models: name one with --model: %s", quoted(names))
}

// quoted lists some names.
func quoted(names []string) string {
	const few = 10
	var b strings.Builder
	for i, n := range names[:min(len(names), few)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name(n))
	}
	if len(names) > few {
		fmt.Fprintf(&b, " and %d more", len(names)-few)
	}
	return b.String()
}

// roomOf is the least context that the entries know of for the model.
func roomOf(models []listed, model string) (int, error) {
	room, known := 0, false
	for _, m := range models {
		if m.ID != model {
			continue
		}
		known = true
		if m.Context > 0 && m.Context <= mostTokens && (room == 0 || m.Context < room) {
			room = m.Context
		}
	}
	switch {
	case !known:
		return 0, fmt.Errorf("no entry has a model %q: see 'viiwork models --mesh'", model)
	case room == 0:
		return 0, fmt.Errorf("the context length of %q is not known: wait until a node has loaded it", model)
	}
	return room, nil
}

// weigh learns how many bytes of our text are a token, from the engine itself; where it does not say, the usual is taken.
func (c *client) weigh(ctx context.Context, entry string, rng *rand.Rand) *gauge {
	g := &gauge{ratio: usualRatio}
	text := babble(rng, 4096)
	body, err := json.Marshal(map[string]string{"model": c.model, "content": text})
	if err != nil {
		return g
	}
	var cut struct {
		Tokens []json.RawMessage `json:"tokens"`
	}
	if c.document(ctx, entry+"/tokenize", body, &cut) == nil && len(cut.Tokens) > 0 {
		g.ratio = min(max(float64(len(text))/float64(len(cut.Tokens)), leastRatio), mostRatio)
	}
	return g
}
