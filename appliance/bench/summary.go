package bench

import (
	"slices"
	"time"
)

// Summary is a run in figures, for people and scripts. What the simulator counts is called and counted as there, so that
// the two can be laid side by side. Shares are 0 to 1; times are s.
type Summary struct {
	Model    string   `json:"model"`
	Entries  []string `json:"entries"`
	Sessions int      `json:"sessions"`
	Headers  string   `json:"headers"`
	Scale    float64  `json:"scale"`
	Seconds  float64  `json:"seconds"`
	Cut      bool     `json:"interrupted"`

	Turns        int     `json:"turns"` // answered
	TurnsPerHour float64 `json:"turns_per_hour"`
	Times
	Hit80        float64 `json:"hit80"`         // ordinary turns that reused at least 80 % of the context they had
	Cached       float64 `json:"cached"`        // of all tokens of prompts
	MovedNode    float64 `json:"moved_node"`    // ordinary turns on another node than the one before
	MovedBackend float64 `json:"moved_backend"` // on another backend of the same node
	Warm         float64 `json:"warm"`          // of the turns that changed node, which reused at least 90 % of the prompt
	Partly       float64 `json:"partly"`        // 30 to 90 %
	Cold         float64 `json:"cold"`          // less
	Rejected     float64 `json:"rejected"`      // of all tries
	Wasted       float64 `json:"wasted_tokens_per_turn"`
	Failed       int     `json:"failed"` // turns without a whole answer

	Classes []ClassSummary `json:"classes"`
	Nodes   []NodeSummary  `json:"nodes"`
	Errors  []ErrorCount   `json:"errors"`
}

// Times to the first token, from the first try, refusals included.
type Times struct {
	Mean float64 `json:"ttft_mean_s"`
	P50  float64 `json:"ttft_p50_s"`
	P95  float64 `json:"ttft_p95_s"`
	P99  float64 `json:"ttft_p99_s"`
}

// ClassSummary is all turns of a class.
type ClassSummary struct {
	Class string  `json:"class"`
	Turns int     `json:"turns"`
	Share float64 `json:"share"`
	Times
}

// NodeSummary is all turns that ran on a node.
type NodeSummary struct {
	Node   string  `json:"node"`
	Turns  int     `json:"turns"`
	Share  float64 `json:"share"`
	Cached float64 `json:"cached"` // of the tokens of prompts
	Times
}

// ErrorCount is how often a turn failed in one way.
type ErrorCount struct {
	Error string `json:"error"`
	Turns int    `json:"turns"`
}

// Summary counts the turns of a report.
func (r Report) Summary() Summary {
	s := Summary{Model: r.Model, Entries: r.Entries, Sessions: r.Sessions, Headers: r.Headers, Scale: r.Scale, Seconds: r.Took.Seconds(), Cut: r.Cut,
		Classes: []ClassSummary{}, Nodes: []NodeSummary{}, Errors: []ErrorCount{}}
	answered := make([]Turn, 0, len(r.Turns))
	failures := map[string]int{}
	refused := 0
	for _, t := range r.Turns {
		refused += t.Refusals
		if t.Error != "" {
			failures[t.Error]++
			s.Failed++
			continue
		}
		answered = append(answered, t)
	}
	s.Turns = len(answered)
	if r.Took > 0 {
		s.TurnsPerHour = float64(s.Turns) / r.Took.Hours()
	}
	s.Times, s.Cached, s.Rejected = timesOf(answered), cachedOf(answered), share(refused, refused+len(r.Turns))
	s.placements(answered)
	for c := Warm; c <= Unknown; c++ {
		of := those(answered, func(t Turn) bool { return t.Class() == c })
		if c != Unknown || len(of) > 0 {
			s.Classes = append(s.Classes, ClassSummary{c.String(), len(of), share(len(of), s.Turns), timesOf(of)})
		}
	}
	for _, node := range nodesOf(answered) {
		of := those(answered, func(t Turn) bool { return t.Node == node })
		s.Nodes = append(s.Nodes, NodeSummary{node, len(of), share(len(of), s.Turns), cachedOf(of), timesOf(of)})
	}
	for text, n := range failures {
		s.Errors = append(s.Errors, ErrorCount{text, n})
	}
	slices.SortFunc(s.Errors, func(a, b ErrorCount) int { return b.Turns - a.Turns })
	return s
}

// placements counts what a placement can help: turns that continue a session.
func (s *Summary) placements(answered []Turn) {
	var hits, nodes, backends, wasted int
	var classes [Unknown + 1]int
	ordinary := those(answered, Turn.ordinary)
	for _, t := range ordinary {
		if t.Hit() {
			hits++
		}
		wasted += max(0, t.Had-max(0, t.Cached))
		switch t.Moved {
		case MovedBackend:
			backends++
		case MovedNode:
			nodes++
			classes[t.Class()]++
		}
	}
	s.Hit80, s.Wasted = share(hits, len(ordinary)), share(wasted, len(ordinary))
	s.MovedNode, s.MovedBackend = share(nodes, len(ordinary)), share(backends, len(ordinary))
	s.Warm, s.Partly, s.Cold = share(classes[Warm], nodes), share(classes[Partly], nodes), share(classes[Cold], nodes)
}

// mostNodes bounds the table of nodes: an entry may say anything.
const mostNodes = 64

// nodesOf lists the nodes that ran turns, by name, as many as there may be.
func nodesOf(turns []Turn) []string {
	seen := map[string]bool{}
	for _, t := range turns {
		if t.Node != "" && len(seen) < mostNodes {
			seen[t.Node] = true
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func those(turns []Turn, what func(Turn) bool) []Turn {
	var found []Turn
	for _, t := range turns {
		if what(t) {
			found = append(found, t)
		}
	}
	return found
}

func timesOf(turns []Turn) Times {
	if len(turns) == 0 {
		return Times{}
	}
	all := make([]time.Duration, len(turns))
	sum := time.Duration(0)
	for i, t := range turns {
		all[i] = t.TTFT
		sum += t.TTFT
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))].Seconds() }
	return Times{(sum / time.Duration(len(all))).Seconds(), at(0.5), at(0.95), at(0.99)}
}

// cachedOf is the share of the prompts' tokens that was there, by those that say.
func cachedOf(turns []Turn) float64 {
	prompt, cached := 0, 0
	for _, t := range turns {
		if t.Class() != Unknown {
			prompt += t.Prompt
			cached += t.Cached
		}
	}
	return share(cached, prompt)
}

func share(n, of int) float64 { return float64(n) / float64(max(1, of)) }
