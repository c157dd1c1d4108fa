package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"viiwork/appliance/status"
)

// machines lists the members of the mesh.
func (p picture) machines(g glyphs) table {
	t := table{kind: machineKind, title: "machines", none: "no machines", columns: []column{
		{title: "MACHINE", flex: true}, {title: "STATE"}, {title: "SLOTS", drop: 3}, {title: "BUSY", right: true}, {title: "WAITING", right: true},
		{title: "HEARD", right: true, drop: 1}, {title: "VERSION", drop: 2}, {title: "ADDRESS", drop: 4}, {title: "MODELS", drop: 5, flex: true},
	}}
	updates := p.updates()
	if len(updates) > 0 {
		t.columns = append(t.columns, column{title: "UPDATE", flex: true})
	}
	for i, m := range p.node.Members {
		l := p.loadOf(m.Name)
		heard := amount(span(time.Duration(m.AgeMS)*time.Millisecond), float64(m.AgeMS))
		switch {
		case i == 0:
			heard = amount("self", 0)
		case m.AgeMS < 0:
			heard.sort = math.NaN()
		}
		t.rows = append(t.rows, row{key: m.Name, cells: []cell{
			word(m.Name), word(m.State).in(memberMood(m.State)), amount(orUnknown(g.slots(l.busy, l.slots)), fraction(l)), amount(of(l.busy, l.slots), number(l.busy)),
			queued(l.queued), heard, word(orUnknown(m.Version)), word(orUnknown(m.Addr)), word(orUnknown(strings.Join(p.modelsOf(m.Name), ", "))),
		}})
		if r := &t.rows[i]; len(updates) > 0 {
			r.cells = append(r.cells, word(orUnknown(updates[m.Name])))
		}
	}
	return t
}

// updates says of each machine how far it is on its way to another version, while there is one.
func (p picture) updates() map[string]string {
	all := map[string]string{}
	if p.board == nil {
		return all
	}
	for _, t := range p.board.Turns {
		text := t.To + " " + t.State
		if t.State == "left" {
			text = "stays as it is: " + t.Why
		}
		all[t.Name] = text
	}
	return all
}

func memberMood(state string) mood {
	switch state {
	case "alive":
		return good
	case "draining":
		return warn
	case "left":
		return dim
	}
	return bad
}

// queued is a number of waiting requests, which is no news while it is 0.
func queued(n *int) cell {
	c := amount(count(n), number(n))
	if n != nil && *n > 0 {
		c.mood = warn
	}
	return c
}

func fraction(l load) float64 {
	if l.busy == nil || l.slots == nil || *l.slots <= 0 {
		return math.NaN()
	}
	return float64(*l.busy) / float64(*l.slots)
}

func (p picture) modelsOf(machine string) (names []string) {
	for _, m := range p.fleet.Models {
		for _, h := range m.Hosts {
			if h.Node == machine {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// models lists what the mesh serves.
func (p picture) models(g glyphs) table {
	t := table{kind: modelKind, title: "models", none: "no models in the mesh", columns: []column{
		{title: "MODEL", flex: true}, {title: "SLOTS", drop: 2}, {title: "BUSY", right: true}, {title: "WAITING", right: true}, {title: "NEXT SLOT", right: true, drop: 4},
		{title: "CONTEXT", right: true, drop: 3}, {title: "MACHINES", drop: 1, flex: true},
	}}
	for _, m := range p.fleet.Models {
		l := load{slots: m.Slots, busy: m.Busy, queued: m.Queued}
		next := soonest(m.Hosts)
		t.rows = append(t.rows, row{key: m.Name, model: p.here(m.Name), cells: []cell{
			word(m.Name), amount(orUnknown(g.slots(l.busy, l.slots)), fraction(l)), amount(of(l.busy, l.slots), number(l.busy)), queued(l.queued),
			amount(waitWord(next), number(next)), amount(count(m.Context), number(m.Context)), word(hostsWord(m.Hosts)),
		}})
	}
	return t
}

// here is the model's name where this machine has it: only its own logs can be read.
func (p picture) here(model string) string {
	for _, m := range p.node.Models {
		if m.Name == model {
			return model
		}
	}
	return ""
}

// hereAt is the same of what is at a machine, if that is this one.
func (p picture) hereAt(machine, model string) string {
	if machine != p.node.Node {
		return ""
	}
	return p.here(model)
}

func soonest(hosts []status.FleetHost) (ms *int64) {
	for _, h := range hosts {
		if h.WaitMS != nil && (ms == nil || *h.WaitMS < *ms) {
			ms = h.WaitMS
		}
	}
	return ms
}

func waitWord(ms *int64) string {
	switch {
	case ms == nil:
		return unknown
	case *ms == 0:
		return "now"
	}
	return span(time.Duration(*ms) * time.Millisecond)
}

// hostsWord is "attic 1/2, cellar –": which machines have a model, and how busy each is.
func hostsWord(hosts []status.FleetHost) string {
	parts := make([]string, len(hosts))
	for i, h := range hosts {
		parts[i] = h.Node + " " + of(h.Busy, h.Slots)
		if h.Stale {
			parts[i] = h.Node + " silent"
		}
	}
	return orUnknown(strings.Join(parts, ", "))
}

// backends lists this machine's engines.
func (p picture) backends(g glyphs) table {
	t := table{kind: backendKind, title: "backends of " + clean(p.node.Node), none: "no models on this machine", columns: []column{
		{title: "BACKEND", flex: true}, {title: "STATE"}, {title: "SLOTS", drop: 4}, {title: "BUSY", right: true}, {title: "WAITING", right: true},
		{title: "CONTEXT", right: true, drop: 3}, {title: "GPUS", drop: 2}, {title: "RESTARTS", right: true, drop: 1}, {title: "ENGINE", drop: 5},
	}}
	for _, m := range p.node.Models {
		for _, b := range m.Backends {
			slots, busy := taken(b)
			l := load{slots: &slots, busy: &busy, queued: &m.Waiting}
			if !serves(b.State) {
				l = load{queued: l.queued}
			}
			t.rows = append(t.rows, row{key: b.ID, model: m.Name, cells: []cell{
				word(b.ID), word(stateWord(b)).in(backendMood(b.State)), amount(orUnknown(g.slots(l.busy, l.slots)), fraction(l)), amount(of(l.busy, l.slots), number(l.busy)),
				queued(l.queued), contextCell(m.Context), word(gpusWord(b.GPUs)), restarts(b.Restarts), word(orUnknown(b.Engine)),
			}})
		}
	}
	return t
}

func serves(state string) bool { return state == "ready" || state == "busy" || state == "draining" }

func contextCell(n int) cell {
	if n <= 0 {
		return amount(unknown, math.NaN())
	}
	return amount(fmt.Sprint(n), float64(n))
}

func restarts(n int) cell {
	c := amount(fmt.Sprint(n), float64(n))
	if n > 0 {
		c.mood = warn
	}
	return c
}

func stateWord(b status.Backend) string {
	word, progress := b.State, b.Progress
	switch c := b.Change; {
	case c == nil:
	case c.State == "draining":
		word += ", old one draining"
	default:
		word, progress = word+", new one "+c.State, c.Progress
	}
	if progress != nil {
		word += fmt.Sprintf(" %.0f%%", *progress*100)
	}
	return word
}

func backendMood(state string) mood {
	switch state {
	case "ready", "busy":
		return good
	case "starting", "loading", "draining":
		return warn
	}
	return bad
}

func gpusWord(gpus []int) string {
	if len(gpus) == 0 {
		return unknown
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(gpus), " ", ","), "[]")
}
