package plan

import (
	"fmt"
	"slices"

	"viiwork/engine"
)

// refusal says why a model got no place. The cards named are the most that it could have had.
func (p *proposal) refusal(i int) Refusal {
	l, m := p.ledger, p.models[i]
	m.Slots = 1
	m.Context = leastContext
	if m.File.Context > 0 {
		m.Context = min(m.Context, m.File.Context)
	}
	r := Refusal{Model: i, Key: "path", Card: -1}
	switch sets := p.sets(); {
	case !m.known():
		r.Text = "its file says nothing of its layers: where it would go is not known"
	case len(sets) > 0:
		set := slices.MaxFunc(sets, func(a, b []int) int { return compareRooms(p.ledger, a, b) })
		m.Accel, m.Groups, m.Shares = l.Cards[set[0]].Accel, [][]int{l.indices(set)}, p.sharesOf(set)
		b := l.charge(m)
		if card := l.over(b); card >= 0 {
			_, r.Text = l.tooMuch(m, card)
		} else {
			_, r.Text = l.tooMuchRAM(m, b)
		}
	case len(l.Cards) > 0 && slices.ContainsFunc(l.owner, func(s string) bool { return s != "" }):
		r.Text = "no card is left for it: " + l.owned()
	default:
		m.Groups = [][]int{nil}
		if l.Memory == 0 {
			r.Text = "there is no card, and the size of this machine's memory is not known"
			break
		}
		_, r.Text = l.tooMuchRAM(m, l.charge(m))
	}
	return r
}

func compareRooms(l *ledger, a, b []int) int {
	room := func(set []int) (sum int64) {
		for _, at := range set {
			sum += l.Cards[at].room() - l.used[at]
		}
		return sum
	}
	ra, rb := room(a), room(b)
	switch {
	case ra < rb:
		return -1
	case ra > rb:
		return 1
	}
	return 0
}

// owned names who has the cards.
func (l *ledger) owned() string {
	text := ""
	for at, c := range l.Cards {
		if l.owner[at] == "" {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("card %d has %s", c.Index, l.owner[at])
	}
	return text
}

// plan is what came of it, held against the machine once more: a proposal must pass as what an owner wrote.
func (p *proposal) plan(machine Machine) Plan {
	var placed []Model
	var from []int
	for i, m := range p.models {
		if _, no := p.refused[i]; !no {
			m.PromptCache = -1
			slices.SortFunc(m.Groups, slices.Compare)
			placed, from = append(placed, m), append(from, i)
		}
	}
	out := Check(machine, placed)
	for i := range out.Refusals {
		out.Refusals[i].Model = from[out.Refusals[i].Model]
	}
	for i := range out.Warnings {
		out.Warnings[i].Model = from[out.Warnings[i].Model]
	}
	for i := range p.models {
		if r, no := p.refused[i]; no {
			out.Refusals = append(out.Refusals, r)
		}
	}
	slices.SortStableFunc(out.Refusals, func(a, b Refusal) int { return a.Model - b.Model })
	for at, c := range out.ledger.Cards {
		switch {
		case c.Unfit != "":
			out.Notes = append(out.Notes, fmt.Sprintf("%s (%s) is left out: %s", cardsWord([]int{c.Index}), c.Name, c.Unfit))
		case c.Memory == 0:
			out.Notes = append(out.Notes, fmt.Sprintf("%s (%s) is left out: its memory is not told, so what fits there is not known", cardsWord([]int{c.Index}), c.Name))
		case out.ledger.owner[at] == "" && c.Accel != engine.AccelMetal:
			out.Notes = append(out.Notes, fmt.Sprintf("%s (%s) is left free", cardsWord([]int{c.Index}), c.Name))
		}
	}
	return out
}
