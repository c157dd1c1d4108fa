package appliance

import (
	"cmp"
	"math"
	"slices"
	"time"

	"viiwork/appliance/history"
	"viiwork/appliance/status"
)

// maxBoardEnded is how many ended requests a board has, beside all that run.
const maxBoardEnded = 100

// rowOf is one request's row at one node.
type rowOf struct {
	status.Request
	node string
}

// requests joins the rows that nodes have of each request, the newest first.
func (p picture) requests() []status.BoardRequest {
	byID := map[string][]rowOf{}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		for _, r := range n.view.Requests {
			r.Time = n.here(r.Time)
			byID[r.ID] = append(byID[r.ID], rowOf{r, n.Name})
		}
	}
	all := make([]status.BoardRequest, 0, len(byID))
	for _, rows := range byID {
		all = append(all, p.joined(rows))
	}
	slices.SortFunc(all, func(x, y status.BoardRequest) int { return cmp.Or(y.Time.Compare(x.Time), cmp.Compare(x.ID, y.ID)) })
	ended := 0
	return slices.DeleteFunc(all, func(r status.BoardRequest) bool {
		if r.Live {
			return false
		}
		ended++
		return ended > maxBoardEnded
	})
}

// joined takes what became of a request from the node it came in by, and how far it is from the one that runs it. Where two say
// that it came in by them, the first is believed: this node's own word before a stranger's.
func (p picture) joined(rows []rowOf) status.BoardRequest {
	i := slices.IndexFunc(rows, func(row rowOf) bool { return row.Entry == row.node })
	r, from := rows[max(0, i)], ""
	if i >= 0 {
		from = origin(r.Entry, cmp.Or(r.Client, history.OwnPrograms))
	}
	out := status.BoardRequest{
		Key: r.ID, ID: r.ID, Time: r.Time.Round(time.Second).UTC(), Live: r.State != "done", State: r.State, Entry: r.Entry, From: from, Node: r.Node, Backend: r.Backend,
		Model: r.Model, Alias: r.Alias, Session: r.Session, Task: r.Task, Reason: r.Reason, Compacted: r.Compacted,
		Prompt: r.PromptTokens, Cached: r.CachedTokens, Done: r.PromptDone, Output: r.OutputTokens,
		QueueMS: r.QueueMS, TTFTMS: r.TTFTMS, Predicted: r.PredictedTTFTMS, DecodeTPS: r.DecodeTPS, WaitsAt: r.WaitsAt, Place: r.Place,
		Status: r.Status, Error: r.Error, Self: r.Entry == p.self || r.Node == p.self,
	}
	for _, row := range rows {
		if row.node == r.Node && out.Live && row.State != "done" {
			p.progress(&out, row)
		}
	}
	if out.Live {
		p.pace(&out, r)
	} else {
		out.Class = history.Class(r.Request)
	}
	return out
}

// progress takes over how far the node that runs it is. Its word may be a second old: an answer that has begun here is not
// put back.
func (p picture) progress(out *status.BoardRequest, row rowOf) {
	if out.State == "prefill" || out.State == "generating" && out.TTFTMS == nil {
		out.State = row.State
	}
	for _, f := range []struct{ to, from **int }{
		{&out.Prompt, &row.PromptTokens}, {&out.Cached, &row.CachedTokens}, {&out.Done, &row.PromptDone}, {&out.Output, &row.OutputTokens},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

// pace is how fast the answer has come so far.
func (p picture) pace(out *status.BoardRequest, r rowOf) {
	if out.Output == nil || r.TTFTMS == nil || *out.Output < 2 || r.Time.IsZero() {
		return
	}
	since := p.now.Sub(r.Time.Add(time.Duration(*r.TTFTMS * float64(time.Millisecond)))).Seconds()
	if since > 0.5 {
		out.OutputTPS = ptr(math.Round(10*float64(*out.Output)/since) / 10)
	}
}
