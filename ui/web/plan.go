package web

import (
	"fmt"

	"viiwork/appliance/status"
)

// explained is one request with the plan by which it went where it went.
type explained struct {
	status.Request
	Class   string // how warm it began, "" = not known
	WhyCold string // in a sentence, "" = it did not, or nothing is known of it
	Priced  []priced
}

// priced is a candidate of a plan, with what it would have cost beside the cheapest.
type priced struct {
	status.Candidate
	Chosen bool
	Worst  string // the term that costs most
}

// planOf marks the one that was chosen, and names what makes each as dear as it is.
func planOf(p *status.Plan) (all []priced) {
	if p == nil {
		return nil
	}
	for _, c := range p.Candidates {
		all = append(all, priced{
			Candidate: c, Worst: worst(c.Terms),
			Chosen: c.Node == p.Chosen.Node && (p.Chosen.Backend == "" || c.Backend == p.Chosen.Backend),
		})
	}
	return all
}

// worst is the largest term in words.
func worst(t status.Terms) string {
	name, most := "", 0.0
	for _, term := range []struct {
		name string
		v    float64
	}{
		{"computing the prompt", t.Prefill}, {"generating", t.Decode}, {"streams it would hold up", t.Stall}, {"the conversation it would push out", t.Shadow},
		{"waiting for a slot", t.Queue}, {"conversations that live there", t.Load}, {"a slot kept free", t.Reserve}, {"the way there", t.RTT},
	} {
		if term.v > most {
			name, most = term.name, term.v
		}
	}
	return name
}

// whyCold says why a request that found little of its prompt cached did so: by what the engines were known to hold.
func whyCold(r explained) string {
	if r.Class != "cold" && r.Class != "partly" || r.Compacted || len(r.Priced) == 0 || r.Plan.PromptTokens <= 0 {
		return ""
	}
	most, chosen := r.Priced[0], priced{}
	for _, c := range r.Priced {
		if c.Held > most.Held {
			most = c
		}
		if c.Chosen {
			chosen = c
		}
	}
	switch {
	case 10*most.Held < 3*r.Plan.PromptTokens && r.Class == "partly":
		return fmt.Sprintf("no engine was known to hold much of its %d tokens. What was found cached is a beginning that it shares with others.", r.Plan.PromptTokens)
	case most.Held == 0:
		return fmt.Sprintf("no engine was known to hold any of its %d tokens. The conversation is new, or others have taken its place.", r.Plan.PromptTokens)
	case 10*most.Held < 3*r.Plan.PromptTokens:
		return fmt.Sprintf("no engine was known to hold more than %d of its %d tokens. The conversation is new, or others have taken its place.", most.Held, r.Plan.PromptTokens)
	case chosen.Backend == "":
		return fmt.Sprintf("%s held %d of its %d tokens, and another slot was free sooner.", most.Node, most.Held, r.Plan.PromptTokens)
	case most.Held > chosen.Held:
		return fmt.Sprintf("%s held %d of its %d tokens and was dearer all the same (%.1f s to %.1f s), mostly for %s.", most.Node, most.Held, r.Plan.PromptTokens, most.Total, chosen.Total, most.Worst)
	}
	return fmt.Sprintf("%s was thought to hold %d of its %d tokens, and its engine had let go of them.", chosen.Node, chosen.Held, r.Plan.PromptTokens)
}

// Dearer says why the cheapest was not chosen, "" = it was.
func (e explained) Dearer() string {
	if len(e.Priced) == 0 || e.Priced[0].Chosen {
		return ""
	}
	for _, c := range e.Priced {
		if c.Chosen && c.Free > 0 && e.Priced[0].Free == 0 {
			return "It is not the cheapest, but it had a free slot and the cheapest had none."
		}
	}
	return "It is not the cheapest at this moment: what has a home, or a place in a line, leaves it only to save more than 3 s and more than a quarter."
}
