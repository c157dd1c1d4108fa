package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/appliance/status"
	"viiwork/engine"
)

const (
	// leastFetch and mostFetch bound how long a conversation's cache may take to come. In between it has the time in which
	// its tokens would be computed.
	leastFetch = 2 * time.Second
	mostFetch  = 60 * time.Second
	// maxTokenDoc is the largest answer that is read to learn a prompt's tokens.
	maxTokenDoc = 64 << 20
)

// prepare makes the engine ready for the request: what others would lose by it is saved, and its own cache brought along if
// that is worth it. What comes of it has to be ended.
func (k *call) prepare(lease *engine.Lease) *kvshare.Start {
	t := kvshare.Turn{Model: k.model, Backend: lease.Backend(), Session: k.session}
	if k.rt.streams() && k.g.cfg.Caches != nil {
		k.describe(&t)
	}
	if len(t.Prompt) == 0 {
		return (*kvshare.Share)(nil).Begin(k.ctx, t)
	}
	st := k.g.cfg.Caches.Begin(k.ctx, t)
	if st.Moved != "" {
		k.movedBy(st.Moved)
	}
	return st
}

// describe tells what is known of the request's prompt, and which cache is worth fetching.
func (k *call) describe(t *kvshare.Turn) {
	v := newView(k.g.members(), k.g.own(k.model), k.model)
	found := k.find()
	p := k.prefix()
	t.Tokens = k.g.rates.prompt(k.model, p, found.Matched, found.Counted)
	t.Prompt, t.Marks = p.Links, k.g.rates.marks(k.model, p, t.Tokens)
	home := k.home // as it was before this request was granted a slot: by now the conversation is at home here
	if home.known && home.node != k.g.id() {
		t.From = home.node
	}
	s := v.whole(k.g)
	k.hold(&s, found)
	own := nodeOf(&s, "")
	if own != nil {
		own.Unsaved = 0 // it would have to be saved before the turn, and is not
	}
	for i := 0; own != nil && i < len(own.Backends); i++ {
		if b := &own.Backends[i]; b.ID == t.Backend {
			t.Prefill = b.Prefill
			if k.g.cfg.Caches.Lost(k.model, b.ID, k.session, t.Prompt) {
				b.Held = 0
			}
		}
	}
	r := route.Request{Policy: k.g.cfg.Policy, Forget: k.g.cfg.Forget, Prompt: t.Tokens, Home: home.node, HomeBackend: home.backend}
	kind, from, holds, _ := route.Fetch(s, r, k.g.id(), t.Backend)
	if kind == "" {
		return
	}
	f := &kvshare.Fetch{Tokens: holds, Within: bearable(t)}
	if kind == route.Pull {
		m, ok := k.g.member(from)
		if !ok {
			return
		}
		f.Member = m.Member
	} else {
		from = ""
	}
	if f.Link, f.Stored = deepest(found, from); f.Link >= 0 {
		t.Fetch = f
	}
}

// whole is how the model stands everywhere, whoever may run the request.
func (v *view) whole(g *Gateway) route.Snapshot {
	s := v.usual
	if v.own.has {
		n := node(v.own.told)
		n.ID, n.Name, n.Local = g.id(), g.cfg.Node, true
		s.Nodes = append(s.Nodes, n)
	}
	s.Nodes = append(s.Nodes, v.others...)
	return s
}

// deepest is the link of the prompt up to which a node has it, and up to which that is in its store already; -1 = it has
// nothing. "" is this node.
func deepest(found mesh.Found, node string) (link, stored int) {
	link, stored = -1, -1
	for _, h := range found.Stored {
		if h.Node == node {
			stored = max(stored, h.Link)
		}
	}
	for _, h := range found.Held {
		if h.Node == node && node != "" { // what engines here hold cannot be fetched from the store
			link = max(link, h.Link)
		}
	}
	return max(link, stored), stored
}

// bearable is how long the turn may wait for its cache: no longer than it would take to compute it.
func bearable(t *kvshare.Turn) time.Duration {
	if t.Prefill <= 0 {
		return mostFetch
	}
	return min(max(time.Duration(float64(t.Tokens)/t.Prefill*float64(time.Second)), leastFetch), mostFetch)
}

// movedBy says that the request's cache came along, which is why it runs well here.
func (k *call) movedBy(how string) {
	k.ans.know(headRoute, how)
	k.row.update(func(r *status.Request) { r.Reason = how })
}

// promptTokens asks the engine for the tokens of the request's prompt, by its own template.
func (k *call) promptTokens(lease *engine.Lease) func(context.Context) ([]int32, error) {
	if k.rt.kind != kindChat {
		return nil
	}
	return func(ctx context.Context) ([]int32, error) {
		var prompt struct {
			Prompt string `json:"prompt"`
		}
		p := edited(k.body.bytes, &k.facts, endpoint{path: "/apply-template"}, sent{slot: -1})
		defer p.close()
		req := &http.Request{URL: &url.URL{Path: "/apply-template"}, Body: p.reader(), ContentLength: p.size}
		if err := askEngine(ctx, lease, req, &prompt); err != nil {
			return nil, err
		}
		body, err := json.Marshal(map[string]any{"content": prompt.Prompt, "add_special": true, "parse_special": true})
		if err != nil {
			return nil, err
		}
		var doc struct {
			Tokens []int32 `json:"tokens"`
		}
		req = &http.Request{URL: &url.URL{Path: "/tokenize"}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
		err = askEngine(ctx, lease, req, &doc)
		return doc.Tokens, err
	}
}

// askEngine posts a question in JSON to the engine of a lease.
func askEngine(ctx context.Context, lease *engine.Lease, req *http.Request, into any) error {
	req.Method, req.Header = http.MethodPost, http.Header{"Content-Type": jsonType}
	resp, err := lease.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	doc, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenDoc+1))
	switch {
	case err != nil:
		return err
	case len(doc) > maxTokenDoc:
		return errors.New("the engine's answer is too long")
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the engine answers %d", resp.StatusCode)
	}
	return json.Unmarshal(doc, into)
}
