package top

import (
	"fmt"

	"viiwork/appliance/status"
)

// whole reports whether the picture has what the mesh's machines tell of themselves, and it is wanted.
func (p picture) whole(mesh bool) bool { return mesh && p.board != nil }

// whose says of which machines a table is that each fills for itself: of this one, or of those in the mesh that tell.
func (p picture) whose(mesh bool) string {
	if !p.whole(mesh) {
		return clean(p.node.Node)
	}
	told, alive := 0, 0
	for _, t := range p.board.Totals {
		told, alive = t.Told, max(t.Told, t.Alive)
	}
	if told < alive {
		return fmt.Sprintf("%d of %s", told, things(alive, "machine"))
	}
	return things(alive, "machine")
}

// running lists what is in flight, the newest first.
func (p picture) running(mesh bool) []status.Request {
	if !p.whole(mesh) {
		return p.requests
	}
	all := []status.Request{}
	for _, r := range p.board.Requests {
		if r.Live {
			all = append(all, fromBoard(r))
		}
	}
	return all
}

func fromBoard(r status.BoardRequest) status.Request {
	out := status.Request{
		ID: r.ID, Time: r.Time, Entry: r.Entry, Node: r.Node, Backend: r.Backend, Model: r.Model, Alias: r.Alias, Session: r.Session, Task: r.Task,
		Reason: r.Reason, Compacted: r.Compacted, State: r.State, Status: r.Status, Error: r.Error, WaitsAt: r.WaitsAt, Place: r.Place,
		PromptTokens: r.Prompt, CachedTokens: r.Cached, PromptDone: r.Done, OutputTokens: r.Output,
		QueueMS: r.QueueMS, TTFTMS: r.TTFTMS, PredictedTTFTMS: r.Predicted, DecodeTPS: r.DecodeTPS,
	}
	if out.DecodeTPS == nil {
		out.DecodeTPS = r.OutputTPS // so far
	}
	return out
}

// seen lists graphics cards.
func (p picture) seen(mesh bool) []status.Card {
	if p.whole(mesh) {
		return p.board.Cards
	}
	all := make([]status.Card, len(p.node.GPUs))
	for i, c := range p.node.GPUs {
		all[i] = status.Card{
			Node: p.node.Node, Self: true, Index: c.Index, Accel: c.Accel, Name: c.Name, Model: c.Model,
			Used: c.Used, Memory: c.Memory, Busy: c.Busy, Celsius: c.Celsius, Watts: c.Watts, CapWatts: c.CapWatts, Hot: c.ByHeat != nil && *c.ByHeat,
		}
	}
	return all
}

// toldBy is what another machine tells of its engines and cards.
func (p picture) toldBy(name string) []string {
	if p.board == nil {
		return nil // it is asked for the next picture
	}
	var engines, cards []string
	for _, e := range p.board.Engines {
		if e.Node != name {
			continue
		}
		engines = append(engines, fmt.Sprintf("  %s: %s, %s slots free, prefill %s and decode %s tokens/s", e.Backend, e.State, of(e.Free, e.Slots), rate(e.PrefillTPS), rate(e.DecodeTPS)))
		if e.Error != "" {
			engines = append(engines, "    "+e.Error)
		}
	}
	for _, c := range p.board.Cards {
		if c.Node == name {
			cards = append(cards, fmt.Sprintf("  %s: %s GiB, %s busy, %s, %s  %s", cardWord(c), memory(c).text, share(c.Busy), heat(c).text, power(c).text, orUnknown(c.Name)))
		}
	}
	lines := append(titled("Engines", engines), titled("Graphics cards", cards)...)
	for _, m := range p.board.Machines {
		if m.Name == name && !m.Told {
			lines = append(lines, "", "It has not told of its cards lately.")
		}
	}
	return lines
}
