package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/appliance/status"
	"viiwork/engine"
)

const (
	// wholeTokens is to how many the tokens that are still to compute are rounded: each batch is no news.
	wholeTokens = 512
	// freeInStep is the same for the time until a slot frees.
	freeInStep = 500 * time.Millisecond
)

// Run begins with what an earlier run has measured and keeps on disk what this one does, until ctx ends. A gateway without a
// file for it needs no Run.
func (g *Gateway) Run(ctx context.Context) error {
	if err := g.rates.load(g.cfg.RatesFile); err != nil {
		g.log.Warn("what was measured before is not known", "error", err)
	}
	if g.cfg.RatesFile != "" {
		g.rates.keep(ctx, g.cfg.RatesFile, g.log)
	}
	return nil
}

// depart notes that an engine has got the request.
func (k *call) depart(lease *engine.Lease) {
	k.flight = k.g.flights.begin(lease.Backend())
	k.began = time.Now()
	k.first = 0
}

// watch tells the flight how far the engine is.
func (k *call) watch(f *follower) {
	switch {
	case k.flight == nil:
	case f.content:
		k.flight.token()
		produced := k.flight.produced
		k.row.update(func(r *status.Request) { r.OutputTokens = &produced })
	case f.prefill:
		k.flight.computes(f.tally.left)
		if f.tally.prompt >= 0 {
			computed := f.tally.prompt - f.tally.left
			k.row.update(func(r *status.Request) { r.PromptDone = &computed })
		}
	}
}

// Produced is how many tokens the engines of this node have generated since it started.
func (g *Gateway) Produced() int64 { return g.flights.all() }

// land takes account of what an engine has done for the request: what its backend holds now, and how fast it was. What a
// broken engine holds is not known.
func (k *call) land(lease *engine.Lease, err error) {
	produced := k.flight.produced
	streams := k.flight.end()
	k.flight = nil
	t := &k.tally
	out := kvshare.Outcome{Prompt: t.prompt, Cached: t.cached}
	defer func() { k.caches.End(k.ctx, out) }()
	var e *Error
	if !k.rt.streams() || t.prompt < 0 || k.first == 0 || errors.As(err, &e) || lease.Replaced() {
		return // the backend holds nothing of it, or nobody knows what
	}
	p, answer := k.prefix(), t.output
	if answer < 0 {
		answer = produced
	}
	k.g.rates.counted(k.model, p, t.prompt)
	stay := mesh.Resident{
		Model: k.model, Backend: lease.Backend(), Session: k.session, Source: k.source,
		Chain: p.Links, Marks: k.g.rates.marks(k.model, p, t.prompt), Tokens: t.prompt + answer,
	}
	k.g.known.Settle(stay, t.cached)
	k.g.displaced(stay.Backend)
	if err == nil {
		out.Stay, out.Tokens = &stay, k.promptTokens(lease)
		k.g.rates.answered(k.model, lease.Backend(), work{
			prompt: t.prompt, cached: t.cached, output: t.output, prefill: t.prefill, decode: t.decode, streams: streams, first: k.first,
		})
	}
}

// displaced forgets what a backend of an engine without a cache beside its slots has lost to the last answers. What an external
// one keeps is not ours to say.
func (g *Gateway) displaced(backend string) {
	for _, m := range g.cfg.Engine.Snapshot() {
		for i := range m.Backends {
			if b := &m.Backends[i]; b.ID == backend && m.Model.PromptCache <= 0 && m.Model.Runner != engine.RunnerExternal {
				g.known.Slots(backend, max(len(b.Slots), m.Model.Parallel))
			}
		}
	}
}

// claim is how many tokens of the prompt a member says it holds at a backend.
func (k *call) claim(m mesh.Member, backend string) int {
	for _, h := range k.found.Held {
		if h.Node == m.ID && h.Backend == backend {
			return h.Tokens
		}
	}
	return 0
}

// busy puts into a backend's report what it is at work on, and who lives there. output is the mean length of an answer.
func (g *Gateway) busy(to *mesh.Backend, output float64) {
	l := g.flights.load(to.ID)
	to.Outstanding = (l.outstanding + wholeTokens - 1) / wholeTokens * wholeTokens
	to.Decoding = l.decoding
	to.Residents = max(g.known.Residents(to.ID), len(l.running))
	to.Idle = to.Residents - len(l.running)
	if to.Free == 0 {
		to.FreeInMS = route.FreeIn(priced(*to), l.running, output).Round(freeInStep).Milliseconds()
	}
}

// term tells one run of an engine from the next; the zero one = it has not served yet.
type term struct {
	process string // "" where it is not ours
	since   time.Time
}

// terms is which run of its engine each backend of this node was last seen with.
type terms struct {
	mu sync.Mutex // may be taken with the lineup's; engine, register and Caches are asked with it held, and call nobody back
	of map[string]term
}

// engines is how the engines of this node stand. What those had held that are gone, or began anew, is forgotten first, so
// that nobody plans by it.
func (g *Gateway) engines() []engine.ModelState {
	g.terms.mu.Lock()
	defer g.terms.mu.Unlock()
	models := g.cfg.Engine.Snapshot() // under the lock: with an older one an engine that has just come would count as gone
	now := make(map[string]term, len(g.terms.of))
	for _, m := range models {
		for _, b := range m.Backends {
			t := g.terms.of[b.ID]
			if serving(b.State) {
				if t = (term{process: b.Process}); b.Process == "" {
					t.since = b.ReadySince
				}
			}
			now[b.ID] = t
		}
	}
	for id, t := range g.terms.of {
		if t != (term{}) && now[id] != t {
			g.known.Forget(id)
			g.cfg.Caches.Forget(id)
		}
	}
	g.terms.of = now
	return models
}
