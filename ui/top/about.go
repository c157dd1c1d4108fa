package top

import (
	"fmt"
	"math"
	"time"

	"viiwork/appliance/status"
)

// aboutMachine are a machine's models, and what it is at work on as far as this node knows.
func (p picture) aboutMachine(name string) (lines []string) {
	for _, m := range p.fleet.Models {
		for _, h := range m.Hosts {
			if h.Node == name {
				lines = append(lines, fmt.Sprintf("  %s: %s", m.Name, hostWord(h)))
			}
		}
	}
	lines = titled("Models", lines)
	var running []string
	for _, r := range p.running(true) {
		if r.Node == name || r.WaitsAt == name {
			running = append(running, fmt.Sprintf("  %s  %s  %s  %s", r.ID, r.State, r.Model, span(p.at.Sub(r.Time))))
		}
	}
	lines = append(lines, titled("Requests there", running)...)
	if name != p.node.Node {
		return append(lines, p.toldBy(name)...)
	}
	var warnings []string
	for _, w := range p.node.Warnings {
		warnings = append(warnings, "  "+w.Text, "    "+w.Fix)
	}
	return append(lines, titled("Warnings", warnings)...)
}

func titled(title string, lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	return append([]string{"", title}, lines...)
}

// hostWord is how busy a machine is with a model.
func hostWord(h status.FleetHost) string {
	if h.Stale {
		return "not heard for " + span(time.Duration(h.AgeMS)*time.Millisecond) + ": its figures are not known"
	}
	return fmt.Sprintf("%s slots busy, %s waiting, next slot %s, context %s", of(h.Busy, h.Slots), count(h.Queued), waitWord(h.WaitMS), count(h.Context))
}

func (p picture) aboutModel(name string) (lines []string) {
	for _, m := range p.fleet.Models {
		if m.Name != name {
			continue
		}
		for _, h := range m.Hosts {
			lines = append(lines, fmt.Sprintf("  %s: %s", h.Node, hostWord(h)))
		}
	}
	return titled("Machines", lines)
}

func (p picture) aboutBackend(id string) (lines []string) {
	for _, m := range p.node.Models {
		for _, b := range m.Backends {
			if b.ID != id {
				continue
			}
			lines = append(lines, fmt.Sprintf("%-12s %s", "RUNNER", orUnknown(b.Runner)), fmt.Sprintf("%-12s %s", "PROCESS", orUnknown(b.Process)))
			if b.Error != "" {
				lines = append(lines, titled("Why it is not ready", []string{"  " + b.Error})...)
			}
			var slots []string
			for _, s := range b.Slots {
				slots = append(slots, fmt.Sprintf("  %d  %-9s  session %s  tokens %s", s.ID, s.State, orUnknown(s.Session), count(s.Tokens)))
			}
			lines = append(lines, titled("Slots", slots)...)
		}
	}
	return lines
}

// aboutRequest is one request, and why it is where it is.
func (s *screen) aboutRequest(o *opened) []string {
	if o.request == nil {
		for _, r := range s.picture.running(s.mesh) {
			if r.ID == o.key {
				return aboutRequest(r, s.picture.at)
			}
		}
		return []string{"asking the node …"}
	}
	return aboutRequest(*o.request, s.picture.at)
}

func aboutRequest(r status.Request, now time.Time) []string {
	var lines []string
	say := func(name, text string) { lines = append(lines, fmt.Sprintf("%-16s %s", name, orUnknown(text))) }
	model := r.Model
	if r.Alias != "" {
		model += ", asked for as " + r.Alias
	}
	say("model", model)
	say("route", r.Path)
	say("state", r.State)
	if r.Status != 0 {
		say("status", fmt.Sprintf("%d %s", r.Status, r.Error))
	}
	say("came", r.Time.Local().Format(time.DateTime)+", "+span(now.Sub(r.Time))+" ago")
	say("way", way(r))
	say("backend", r.Backend)
	say("because", r.Reason)
	say("session", r.Session)
	say("key from", r.KeySource)
	say("task", r.Task)
	say("prompt", count(r.PromptTokens)+" tokens, "+count(r.CachedTokens)+" of them cached ("+cached(r)+")")
	say("answer", count(r.OutputTokens)+" tokens")
	say("waited", millis(r.QueueMS))
	say("first token", millis(r.TTFTMS)+", predicted "+millis(r.PredictedTTFTMS))
	say("prefill", rate(r.PrefillTPS)+" tokens/s")
	say("decode", rate(r.DecodeTPS)+" tokens/s")
	if r.ExpectedWaitMS != nil {
		say("still to wait", millis(r.ExpectedWaitMS))
	}
	return append(lines, aboutPlan(r.Plan)...)
}

// aboutPlan lists what could have answered, by the seconds each would have cost.
func aboutPlan(p *status.Plan) []string {
	if p == nil || len(p.Candidates) == 0 {
		return nil
	}
	lines := []string{"", fmt.Sprintf("Why there: the cheapest in seconds (%s)", p.Policy),
		fmt.Sprintf("  %8s %8s %8s %8s %8s %8s  %s", "total", "prefill", "decode", "stall", "queue", "others", "held  backend")}
	for _, c := range p.Candidates {
		t := c.Terms
		mark := " "
		if c.Node == p.Chosen.Node && c.Backend == p.Chosen.Backend {
			mark = "*"
		}
		lines = append(lines, fmt.Sprintf("%s %8s %8s %8s %8s %8s %8s  %d  %s on %s %s", mark, seconds(c.Total), seconds(t.Prefill), seconds(t.Decode), seconds(t.Stall),
			seconds(t.Queue), seconds(t.Shadow+t.Load+t.Reserve+t.RTT), c.Held, c.Backend, c.Node, c.Fetch))
	}
	return lines
}

func seconds(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return unknown
	}
	return fmt.Sprintf("%.2f", v)
}
