package gateway

import (
	"context"
	"slices"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

const (
	// lookGap is the least time between two looks at the same model for the sake of changes: a mesh may have hundreds of
	// these a second. lookShare is how many times longer than a look it is at least, so that looking takes no more than its
	// share of a core however many wait.
	lookGap   = 10 * time.Millisecond
	lookShare = 10
)

// look plans anew for all who look for a slot of the model, in the order in which they came. A seat that it finds is
// taken, or counted, in the same act. It tells how long to leave that be.
func (g *Gateway) look(model string) time.Duration {
	g.lineup.mu.Lock()
	defer g.lineup.mu.Unlock()
	return g.planAll(model)
}

// lookFor is look for one that has just come, unless somebody has looked since: of a thousand that come at one time each
// would plan for all the others, and none would get on. Who comes soon after a look and finds others waiting has to wait
// as well until they can be looked for again, for it must not be first to see what they would take.
func (g *Gateway) lookFor(ctx context.Context, p *place) time.Duration {
	for {
		gap, rest := g.lookFirst(p)
		if rest <= 0 || !pause(ctx, rest) {
			return gap
		}
	}
}

// lookFirst is one try of lookFor; rest > 0 is when to try again.
func (g *Gateway) lookFirst(p *place) (gap, rest time.Duration) {
	l, model := g.lineup, p.call.model
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.planned {
		return lookGap, 0
	}
	for _, older := range l.models[model] {
		if older == p {
			break
		}
		if !older.idle() {
			rest = time.Until(l.rests[model])
			break
		}
	}
	if rest > 0 {
		return 0, rest
	}
	return g.planAll(model), 0
}

// planAll wants the lock of the lineup held. For who has left nothing is looked for.
func (g *Gateway) planAll(model string) time.Duration {
	begun := time.Now()
	v := newView(g.members(), g.own(model), model)
	if own := g.joined.Load(); own != nil {
		for i := range v.others {
			v.others[i].RTT = own.Client.RTT(v.others[i].ID)
		}
	}
	for _, p := range g.lineup.models[model] {
		if !p.idle() {
			g.plan(p, v)
		}
		p.planned = true
	}
	now := time.Now()
	gap := max(lookGap, lookShare*now.Sub(begun))
	g.lineup.rests[model] = now.Add(gap)
	return gap
}

// view is how a model stands everywhere, put together once for all who look for a slot of it.
type view struct {
	own     ownModel
	members []mesh.NodeState // those that have told lately that they have the model
	others  []route.Node     // beside each
	usual   route.Snapshot   // without nodes
	nodes   []route.Node     // room for those of one request
}

func newView(members []mesh.NodeState, own ownModel, model string) *view {
	v := &view{own: own}
	if own.has {
		usual(&v.usual, own.told)
	}
	for _, m := range members {
		if n, told, ok := there(m, model); ok {
			usual(&v.usual, told)
			v.members, v.others = append(v.members, m), append(v.others, n)
		}
	}
	return v
}

// plan wants the lock of the lineup held.
func (g *Gateway) plan(p *place, v *view) {
	k := p.call
	found := k.find()
	home := k.homeOf(found)
	r := route.Request{
		Policy: g.cfg.Policy, Forget: g.cfg.Forget, Flat: g.cfg.Flat,
		Host: k.wanted(), Prefer: k.prefer, Tried: k.tried, Seed: g.seed.Add(1),
		Prompt: g.rates.prompt(k.model, k.begins, found.Matched, found.Counted), Home: home.node, HomeBackend: home.backend,
		Left: time.Until(k.until),
	}
	if p.stands {
		r.Stands, r.Place = p.standsAt, p.before
	}
	s := k.survey(v)
	k.hold(&s, found)
	p.decision = decision{route.Pick(s, r), r.Prompt, home}
	switch {
	case p.plan.None():
		p.tell()
		return
	case p.plan.Wait, p.stands && p.standsAt == p.plan.Node && (p.standsFor == "" || p.standsFor == p.plan.Backend): // its line is served before anybody sees a free slot there
		return
	case p.plan.Local:
		t, err := g.cfg.Engine.Queue(k.wish(p.plan.Backend, true))
		if err != nil { // somebody was quicker: it waits for any of the node's, or those who do would pass it by
			p.plan.Wait, p.plan.Backend = true, ""
			return
		}
		p.offer = &offer{ticket: t}
		v.own = g.own(k.model)
	default:
		at := slices.IndexFunc(v.members, func(m mesh.NodeState) bool { return m.Member.ID == p.plan.Node })
		m := v.members[at]
		p.offer = &offer{member: m.Member, backend: p.plan.Backend, reason: p.plan.Reason, asked: g.lineup.ahead.add(m, k.model, false)}
	}
	p.tell()
}

// wanted is the id of the only node that will do, "" = any. A node that is alone has none.
func (k *call) wanted() string {
	if k.pinned {
		return k.g.id()
	}
	return k.host
}

// survey is the view in the eyes of the request, until the next one's. It wants the lock of the lineup held.
func (k *call) survey(v *view) route.Snapshot {
	s, now := v.usual, time.Now()
	s.Nodes = v.nodes[:0]
	if v.own.has {
		n := k.here(&v.own)
		n.LineFull = now.Before(k.shut[n.ID].until)
		s.Nodes = append(s.Nodes, n)
	}
	if k.pinned {
		return s
	}
	for i, n := range v.others {
		seats, places := k.g.lineup.ahead.count(v.members[i], k.model)
		n.Ahead, n.Waiting = seats, n.Waiting+places
		away := now.Before(k.bounced[n.ID].until)
		n.Full = n.Full || away
		n.LineFull = away || now.Before(k.shut[n.ID].until)
		for j := range n.Backends {
			n.Backends[j].Held = 0
		}
		s.Nodes = append(s.Nodes, n)
	}
	v.nodes = s.Nodes
	return s
}

// ownModel is a model of this node as it stands.
type ownModel struct {
	has  bool
	told mesh.Model
}

// own is a model as it stands, for plans.
func (g *Gateway) own(model string) ownModel {
	for _, m := range g.engines() {
		if m.Model.Name == model {
			return ownModel{true, g.told(m)}
		}
	}
	return ownModel{}
}

// hereFor is here for a model that is not the call's yet: its body has not been read.
func (k *call) hereFor(model string) (route.Node, bool) {
	own := k.g.own(model)
	return k.here(&own), own.has
}

// here is this node, without the backends that have failed the request.
func (k *call) here(own *ownModel) route.Node {
	n := node(own.told)
	n.ID, n.Name, n.Local = k.g.id(), k.g.cfg.Node, true
	n.Backends = slices.DeleteFunc(n.Backends, func(b route.Backend) bool { return slices.Contains(k.triedHere, b.ID) })
	return n
}

// local is a model of this node.
func (g *Gateway) local(model string) (engine.ModelState, bool) {
	for _, m := range g.cfg.Engine.Snapshot() {
		if m.Model.Name == model {
			return m, true
		}
	}
	return engine.ModelState{}, false
}

func freeSlots(b engine.BackendState) int {
	free := 0
	for _, s := range b.Slots {
		if s.State == "free" {
			free++
		}
	}
	return free
}

// there is a member, if it has told lately that it has the model.
func there(m mesh.NodeState, model string) (n route.Node, told mesh.Model, ok bool) {
	if m.Report == nil {
		return n, told, false
	}
	at := slices.IndexFunc(m.Report.Models, func(r mesh.Model) bool { return r.Name == model })
	if at < 0 {
		return n, told, false
	}
	told = m.Report.Models[at]
	n = node(told)
	n.ID, n.Name, n.Quarantined, n.Draining = m.Member.ID, m.Member.Name, m.Quarantined, m.Report.Draining
	if known, ok := m.Model(model); ok { // it knows of refusals, which take away what the report says is free
		_, said := told.Slots()
		_, free := known.Slots()
		n.Full = free < said && !n.Draining
	}
	return n, told, true
}

// node is one that has told this of the model.
func node(told mesh.Model) route.Node {
	n := route.Node{Waiting: told.Waiting, Hold: time.Duration(told.HoldMS) * time.Millisecond, Score: told.Score, Backends: make([]route.Backend, 0, len(told.Backends))}
	for _, b := range told.Backends {
		n.Backends = append(n.Backends, priced(b))
	}
	if kv := told.KV; kv != nil {
		n.Kind, n.Link, n.Sending = kv.Kind, kv.SendBPS, time.Duration(kv.SendingMS)*time.Millisecond
	}
	return n
}

// priced is a backend as the policy sees it.
func priced(b mesh.Backend) route.Backend {
	out := route.Backend{
		ID: b.ID, Ready: b.Ready, Slots: b.Slots, Free: b.Free, Slowdown: b.Slowdown,
		Waiting: b.Waiting, Outstanding: b.Outstanding, Decoding: b.Decoding, FreeIn: time.Duration(b.FreeInMS) * time.Millisecond,
		Residents: b.Residents, Idle: b.Idle,
	}
	if b.PrefillTPS != nil {
		out.Prefill = *b.PrefillTPS
	}
	if b.DecodeTPS != nil {
		out.Decode = *b.DecodeTPS
	}
	return out
}

// hold puts into s which backends hold how much of the prompt, and what lies in the nodes' stores.
func (k *call) hold(s *route.Snapshot, found mesh.Found) {
	for _, h := range found.Stored {
		if n := nodeOf(s, h.Node); n != nil {
			n.Replica = h.Tokens
		}
	}
	for _, h := range found.Held {
		n := nodeOf(s, h.Node)
		if n == nil {
			continue
		}
		for j := range n.Backends {
			if n.Backends[j].ID == h.Backend {
				n.Backends[j].Held = h.Tokens
			}
		}
		if n.Link > 0 && h.Link >= 0 {
			n.Unsaved = max(n.Unsaved, h.Tokens)
		}
	}
}

func nodeOf(s *route.Snapshot, id string) *route.Node {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.ID == id || n.Local && id == "" {
			return n
		}
	}
	return nil
}

// usual is how long answers and pauses are in the mean: as seen here, else as members tell.
func usual(s *route.Snapshot, told mesh.Model) {
	if s.Output == 0 {
		s.Output = told.Output
	}
	if s.Think == 0 {
		s.Think = time.Duration(told.ThinkMS) * time.Millisecond
	}
	if kv := told.KV; kv != nil && s.Cache.ImportRate == 0 {
		s.Cache = route.Cache{
			TokenBytes: kv.TokenBytes, ImportRate: kv.ImportBPS, ImportStart: kv.ImportStart, PullStart: pullStart, SaveRate: kv.SaveBPS, Fresh: kv.Fresh,
		}
	}
}

// pullStart is the seconds it takes until the first byte of a cache comes from another node, beside what it has to send before.
const pullStart = 0.02
