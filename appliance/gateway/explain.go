package gateway

import (
	"cmp"
	"slices"

	"viiwork/appliance/route"
	"viiwork/appliance/status"
)

// maxShown is how many candidates of a plan are kept with a row: those that cost least, and the one that was chosen.
const maxShown = 32

// decision is a plan and what it was made from.
type decision struct {
	plan   route.Plan
	prompt int // tokens, estimated; 0 = unknown
	home   homeAt
}

// decided notes why the request goes where it goes, and when its first token is due there.
func (k *call) decided(d decision) {
	if k.course.Planned.IsZero() {
		k.course.Planned = k.g.now()
	}
	k.row.explain(d)
	c, ok := d.plan.Chosen()
	if !ok || !c.Measured || d.prompt == 0 {
		k.row.update(func(r *status.Request) { r.PredictedTTFTMS = nil })
		return
	}
	ms := float64(k.g.now().Sub(k.start).Microseconds())/1000 + 1000*(c.Prefill+c.Queue)
	k.row.update(func(r *status.Request) { r.PredictedTTFTMS = &ms })
}

// explain keeps the last plan of the request.
func (e *entry) explain(d decision) {
	d.plan.Candidates = cheapest(d.plan)
	e.mu.Lock()
	e.why = d
	e.mu.Unlock()
}

func (e *entry) planned() decision {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// cheapest are the candidates of a plan that are worth keeping.
func cheapest(p route.Plan) []route.Candidate {
	if len(p.Candidates) <= maxShown {
		return p.Candidates
	}
	kept := sorted(p.Candidates)
	chosen, ok := p.Chosen()
	at := slices.IndexFunc(kept, func(c route.Candidate) bool { return c.Node == chosen.Node && c.Backend == chosen.Backend })
	if ok && at >= maxShown {
		kept[maxShown-1] = chosen
	}
	return slices.Clone(kept[:maxShown])
}

func sorted(all []route.Candidate) []route.Candidate {
	return slices.SortedStableFunc(slices.Values(all), func(a, b route.Candidate) int { return cmp.Compare(a.Total, b.Total) })
}

// shown is a decision for people, nil if there was none. A node that is no member now is shown by its id.
func (g *Gateway) shown(d decision) *status.Plan {
	if d.plan.None() {
		return nil
	}
	names := g.names()
	p := &status.Plan{
		Policy: string(g.cfg.Policy), PromptTokens: d.prompt, Candidates: []status.Candidate{},
		Chosen: status.Chosen{Node: names(d.plan.Node), Backend: d.plan.Backend, Wait: d.plan.Wait, Reason: string(d.plan.Reason)},
	}
	if p.Policy != string(route.Classic) {
		p.Policy = string(route.Cost)
	}
	for _, c := range sorted(d.plan.Candidates) {
		p.Candidates = append(p.Candidates, status.Candidate{
			Node: names(c.Node), Backend: c.Backend, Free: c.Free, Held: c.Held, Fetch: string(c.Fetch), Measured: c.Measured,
			Terms: status.Terms(c.Terms), Total: c.Total,
		})
	}
	return p
}

// names tells nodes' names by their ids.
func (g *Gateway) names() func(id string) string {
	names := map[string]string{"": "", g.id(): g.cfg.Node}
	for _, m := range g.members() {
		names[m.Member.ID] = m.Member.Name
	}
	return func(id string) string {
		if name, known := names[id]; known {
			return name
		}
		return id
	}
}
