package plan

import (
	"fmt"
	"slices"
	"strings"

	"viiwork/engine"
)

// Plan is what models come to on a machine.
type Plan struct {
	Models   []Model   // those that were not refused, in their order, with all that was left open decided
	Refusals []Refusal // in the order of the models
	Warnings []Warning
	Notes    []string // what was decided and why, a sentence each

	ledger *ledger
}

// Refusal is a model that this machine cannot hold as it is wanted.
type Refusal struct {
	Model int    // its place among those given
	Key   string // of its settings, the one to change: gpus, context, parallel, path, llamacpp.prompt_cache, llamacpp.split_weights
	Card  int    // the index among its cards that is wrong; -1 = none
	Text  string // ends with what would do
}

// Warning is something about a model that no refusal follows from.
type Warning struct {
	Model int
	Text  string
}

// Check holds a layout against the machine, each model beside those before it.
func Check(machine Machine, models []Model) Plan {
	p := Plan{ledger: newLedger(machine)}
	for i, m := range models {
		if key, text := m.beyond(); key != "" {
			p.Refusals = append(p.Refusals, Refusal{i, key, -1, text})
			continue
		}
		p.add(i, m.sane())
	}
	p.caches()
	for _, m := range p.Models {
		p.Notes = append(p.Notes, m.Name+": "+p.Sentence(m))
	}
	return p
}

// Taken is how many bytes of a card the plan's models take, at the most; 0 = none, or that is not known.
func (p *Plan) Taken(accel engine.Accel, index int) int64 {
	if p.ledger == nil {
		return 0
	}
	at, there := p.ledger.card(accel, index)
	if !there {
		return 0
	}
	return p.ledger.used[at]
}

// add takes a model in, or refuses it.
func (p *Plan) add(i int, m Model) {
	l := p.ledger
	refuse := func(key string, card int, text string) {
		p.Refusals = append(p.Refusals, Refusal{i, key, card, text})
	}
	warn := func(format string, args ...any) {
		p.Warnings = append(p.Warnings, Warning{i, fmt.Sprintf(format, args...)})
	}
	if m.Accel != engine.AccelNone && !l.has(m.Accel) {
		warn("no %s card can be seen from here: whether %s fits is not known", m.Accel, m.Name)
		p.Models = append(p.Models, m)
		return
	}
	if card, text := l.misplaced(m); text != "" {
		refuse("gpus", card, text)
		return
	}
	for _, card := range slices.Concat(l.places(m)...) {
		if c := l.Cards[card]; c.Unfit != "" {
			warn("%s runs on card %d although %s", m.Name, c.Index, c.Unfit)
		}
	}
	b := l.charge(m)
	card, ram := l.over(b), l.overRAM(b)
	switch {
	case !m.known():
		warn("%s: %s", m.Name, l.unknown(m))
	case m.ByHand && (card >= 0 || ram):
		warn("%s looks too large for this machine, but is placed by its own args", m.Name)
	case card >= 0:
		key, text := l.tooMuch(m, card)
		refuse(key, -1, text)
		return
	case ram:
		key, text := l.tooMuchRAM(m, b)
		refuse(key, -1, text)
		return
	}
	if b.vague && m.known() {
		warn("%s: %s", m.Name, l.unknown(m))
	}
	if m.Accel == engine.AccelNone && l.Memory == 0 {
		warn("the size of this machine's memory is not known, so whether %s fits is not either", m.Name)
	}
	l.book(m, b)
	p.Models = append(p.Models, m)
}

// has tells whether any card of a family is known.
func (l *ledger) has(accel engine.Accel) bool {
	return slices.ContainsFunc(l.Cards, func(c Card) bool { return c.Accel == accel })
}

// misplaced names a card that is not there, cannot be used or has another model.
func (l *ledger) misplaced(m Model) (index int, text string) {
	if m.Accel == engine.AccelNone || m.Accel == engine.AccelMetal {
		return -1, ""
	}
	mine := map[int]bool{}
	for _, index := range slices.Concat(m.Groups...) {
		at, ok := l.card(m.Accel, index)
		switch {
		case !ok:
			return index, fmt.Sprintf("this machine has no card %d: it has %s", index, l.listOf(m.Accel))
		case mine[at]:
			return index, fmt.Sprintf("card %d is named twice: remove one", index)
		case l.Cards[at].Never:
			return index, fmt.Sprintf("card %d cannot run a model, %s: leave it out of gpus", index, l.Cards[at].Unfit)
		case l.owner[at] != "":
			return index, fmt.Sprintf("card %d already belongs to %s: a card has one model, give one of them another", index, l.owner[at])
		}
		mine[at] = true
	}
	return -1, ""
}

// listOf writes "cuda cards 0, 1 and 2".
func (l *ledger) listOf(accel engine.Accel) string {
	var indices []string
	for _, c := range l.Cards {
		if c.Accel == accel {
			indices = append(indices, fmt.Sprint(c.Index))
		}
	}
	if n := len(indices) - 1; n > 0 {
		return fmt.Sprintf("%s cards %s and %s", accel, strings.Join(indices[:n], ", "), indices[n])
	}
	return fmt.Sprintf("%s card %s", accel, strings.Join(indices, ""))
}

// unknown says what is missing for a judgement.
func (l *ledger) unknown(m Model) string {
	missing := "its file says nothing of its layers"
	for _, card := range slices.Concat(l.places(m)...) {
		if c := l.Cards[card]; c.Memory == 0 && m.known() {
			missing = fmt.Sprintf("the memory of card %d is not told", c.Index)
		}
	}
	return missing + ", so whether it fits is not known"
}
