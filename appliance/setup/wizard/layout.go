package wizard

import (
	"fmt"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/engine/plan"
)

// lay gives every model its cards, slots and context: what its owner says of it, and the rest worked out beside that.
func (s Sight) lay(picks []pick) plan.Plan {
	machine := s.machine()
	models := make([]plan.Model, len(picks))
	free := machine
	var open []int
	for i, p := range picks {
		models[i] = plan.Model{Name: p.name, File: p.file, Extra: p.extra, PromptCache: -1}
		if len(p.answer.GPUs) == 0 {
			open = append(open, i)
			continue
		}
		models[i] = s.onCards(models[i], p.answer)
		free.Cards = slices.DeleteFunc(slices.Clone(free.Cards), func(c plan.Card) bool {
			return c.Accel == models[i].Accel && slices.Contains(p.answer.GPUs, c.Index)
		})
	}
	wishes := make([]plan.Model, len(open))
	for n, i := range open {
		wishes[n] = models[i]
	}
	proposed := plan.Propose(free, wishes)
	for _, m := range proposed.Models {
		i := open[slices.IndexFunc(wishes, func(w plan.Model) bool { return w.Name == m.Name })]
		m.PromptCache = -1
		models[i] = m
	}
	var placed []plan.Model
	var from []int
	for i := range models {
		if models[i].Slots > 0 { // else it got no place
			models[i] = s.seat(models[i], picks[i].answer)
			placed, from = append(placed, models[i]), append(from, i)
		}
	}
	final := plan.Check(machine, placed)
	for i := range final.Refusals {
		final.Refusals[i].Model = from[final.Refusals[i].Model]
	}
	for i := range final.Warnings {
		final.Warnings[i].Model = from[final.Warnings[i].Model]
	}
	for _, r := range proposed.Refusals {
		r.Model = open[r.Model]
		final.Refusals = append(final.Refusals, r)
	}
	slices.SortStableFunc(final.Refusals, func(a, b plan.Refusal) int { return a.Model - b.Model })
	final.Notes = append(final.Notes, aboutCards(proposed.Notes)...)
	return final
}

// onCards puts a model on the cards its owner names, with the seats that these hold.
func (s Sight) onCards(m plan.Model, a ModelAnswer) plan.Model {
	m.Accel = s.familyOf(a.GPUs[0])
	only := plan.Machine{Memory: s.Memory}
	for _, c := range plan.Cards(s.Cards) {
		if c.Accel == m.Accel && slices.Contains(a.GPUs, c.Index) {
			c.Unfit = "" // the owner says so
			only.Cards = append(only.Cards, c)
		}
	}
	m.Slots, m.Context = 1, 4096
	for _, p := range plan.Propose(only, []plan.Model{m}).Models {
		if p.Accel == m.Accel {
			m = p
		}
	}
	each := max(a.GPUsPerBackend, 1)
	if a.GPUsPerBackend == 0 && len(m.Groups) > 0 && len(a.GPUs)%len(m.Groups[0]) == 0 && len(m.Groups[0]) > 0 {
		each = len(m.Groups[0])
	}
	m.Groups = slices.Collect(slices.Chunk(a.GPUs, each))
	m.PromptCache = -1
	return m
}

// familyOf is whose card an index means. Where two families have it, the one whose card can run a model.
func (s Sight) familyOf(index int) engine.Accel {
	family := engine.AccelCUDA
	found := false
	for _, c := range s.Cards {
		if c.Index == index && (!found || !c.Integrated) {
			family, found = c.Accel, true
		}
	}
	return family
}

// seat takes over the slots and the context that were asked for. Where only one was, the other gives way to it.
func (s Sight) seat(m plan.Model, a ModelAnswer) plan.Model {
	if a.Parallel > 0 {
		m.Slots = a.Parallel
	}
	if a.Context > 0 {
		m.Context = a.Context
	}
	fits := func(m plan.Model) bool { return len(plan.Check(s.machine(), []plan.Model{m}).Refusals) == 0 }
	if fits(m) {
		return m
	}
	less := m
	for a.Parallel == 0 && a.Context > 0 && less.Slots > 1 {
		if less.Slots--; fits(less) {
			return less
		}
	}
	for a.Context == 0 && a.Parallel > 0 && less.Context > 4096 {
		if less.Context /= 2; fits(less) {
			return less
		}
	}
	return m
}

// entry is the model as the configuration has it.
func (s Sight) entry(p pick, m plan.Model, e EngineAnswers) config.Model {
	entry := config.DefaultModel()
	if s.Config != nil {
		for _, old := range s.Config.Models {
			if old.Path == p.path {
				entry = old
			}
		}
	}
	entry.Name, entry.Path, entry.Context, entry.Parallel = p.name, p.path, m.Context, m.Slots
	entry.GPUs, entry.GPUsPerBackend = nil, 1
	if m.Accel != engine.AccelMetal && m.Accel != engine.AccelNone {
		entry.GPUs = slices.Concat(m.Groups...)
		entry.GPUsPerBackend = max(len(m.Groups[0]), 1)
	}
	if args := p.args(); len(args) > 0 {
		entry.Args = args
	}
	entry.Llamacpp.SplitWeights = m.Shares
	entry.Llamacpp.Runner = s.runner(e, m.Accel)
	switch entry.Llamacpp.Runner {
	case "docker":
		entry.Llamacpp.Image = e.Image
		if e.Image == "" {
			entry.Llamacpp.Image = s.imageFor(m)
		}
	case "native":
		entry.Llamacpp.Image = ""
		if e.Binary != "" {
			entry.Llamacpp.Binary = e.Binary
		} else if s.Native != "" { // a service has another PATH
			entry.Llamacpp.Binary = s.Native
		}
	}
	return entry
}

// runner is how a model's engine runs: in a container, but on a Mac, and where no container can be had and none is needed.
func (s Sight) runner(e EngineAnswers, accel engine.Accel) string {
	switch {
	case e.Runner != "":
		return e.Runner
	case s.OS == "darwin", accel == engine.AccelMetal:
		return "native"
	case s.Docker != "" && s.Native != "":
		return "native"
	}
	return "docker"
}

// imageFor is the image for the cards of a model.
func (s Sight) imageFor(m plan.Model) string {
	switch m.Accel {
	case engine.AccelCUDA:
		return "cuda"
	case engine.AccelROCm:
		index := m.Groups[0][0]
		old := slices.ContainsFunc(s.Cards, func(c gpu.Card) bool {
			return c.Accel == m.Accel && c.Index == index && c.Gfx == "gfx906"
		})
		if old { // those published carry it no more
			return "rocm-gfx906"
		}
		return "rocm"
	}
	return "cpu"
}

// cardLine is a card as the owner sees it.
func cardLine(c gpu.Card) string {
	memory := "memory unknown"
	if c.Memory != nil {
		memory = fmt.Sprintf("%.1f GiB", float64(*c.Memory)/(1<<30))
	}
	line := fmt.Sprintf("%s %d  %s, %s", c.Accel, c.Index, c.Name, memory)
	switch {
	case c.Integrated:
		line += ", part of the processor: not used unless you say so"
	case c.Split:
		line += ", cut into instances: cannot run a model as a whole"
	case c.Unified:
		line += ", the machine's own memory"
	}
	if c.Display {
		line += ", a screen is attached"
	}
	return line
}

// freeNamed is the number of cards left free that are named one by one.
const freeNamed = 3

// aboutCards picks out what a proposal says of cards: what it says of models is said once the layout is final.
func aboutCards(notes []string) (kept []string) {
	var free []string
	for _, note := range notes {
		switch {
		case strings.HasPrefix(note, "card") && strings.HasSuffix(note, " is left free"):
			free = append(free, note)
		case strings.HasPrefix(note, "card"):
			kept = append(kept, note)
		}
	}
	if len(free) > freeNamed {
		free = []string{fmt.Sprintf("%d cards are left free", len(free))}
	}
	return append(kept, free...)
}
