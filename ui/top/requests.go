package top

import (
	"fmt"
	"math"
	"time"

	"viiwork/appliance/status"
)

// inFlight lists the requests that run on this machine or came in by it, or all that machines tell of.
func (p picture) inFlight(mesh bool) table {
	t := table{kind: requestKind, title: "in flight by " + p.whose(mesh), none: "nothing in flight", columns: []column{
		{title: "REQUEST", drop: 5}, {title: "AGE", right: true}, {title: "STATE"}, {title: "MODEL", flex: true}, {title: "ENTRY → NODE", drop: 1},
		{title: "WHY", drop: 4}, {title: "PROMPT", right: true, drop: 2}, {title: "CACHED", right: true, drop: 3}, {title: "TOK/S", right: true, drop: 6},
		{title: "SESSION", drop: 8}, {title: "TASK", drop: 7},
	}}
	for _, r := range p.running(mesh) {
		age := max(0, p.at.Sub(r.Time))
		t.rows = append(t.rows, row{key: r.ID, model: p.hereAt(r.Node, r.Model), cells: []cell{
			word(r.ID), amount(span(age.Truncate(100*time.Millisecond)), age.Seconds()), word(r.State).in(requestMood(r.State)), word(orUnknown(r.Model)), word(way(r)),
			word(orUnknown(r.Reason)), amount(count(r.PromptTokens), number(r.PromptTokens)), amount(cached(r), cachedShare(r)),
			amount(rate(r.DecodeTPS), number(r.DecodeTPS)), word(orUnknown(r.Session)), word(orUnknown(r.Task)),
		}})
	}
	return t
}

func requestMood(state string) mood {
	switch state {
	case "queued":
		return warn
	case "generating":
		return good
	}
	return calm
}

// way is where a request came in and where it runs, or whose line it stands in.
func way(r status.Request) string {
	switch {
	case r.WaitsAt != "" && r.Place != nil:
		return fmt.Sprintf("%s, no. %d at %s", r.Entry, *r.Place, r.WaitsAt)
	case r.WaitsAt != "":
		return r.Entry + ", waits at " + r.WaitsAt
	case r.Node == "", r.Node == r.Entry:
		return orUnknown(r.Entry)
	}
	return r.Entry + " → " + r.Node
}

func cachedShare(r status.Request) float64 {
	if r.CachedTokens == nil || r.PromptTokens == nil || *r.PromptTokens <= 0 {
		return math.NaN()
	}
	return float64(*r.CachedTokens) / float64(*r.PromptTokens)
}

func cached(r status.Request) string {
	part := cachedShare(r)
	if math.IsNaN(part) {
		return unknown
	}
	return share(&part)
}

func rate(tps *float64) string {
	if tps == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f", *tps)
}
