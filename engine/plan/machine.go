package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
	"viiwork/engine/gpu"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	headroom    = 512 * mib  // of a card: the driver's own, and what fragments
	displayRoom = 1024 * mib // beside that, where somebody looks at it
	restOfAll   = 4 * gib    // of RAM, for everything that is no engine
)

// Machine is what there is to place models on.
type Machine struct {
	Cards  []Card
	Memory int64 // bytes of RAM; 0 = unknown
}

// Card is one card.
type Card struct {
	Accel   engine.Accel
	Index   int    // within its family
	Name    string // cards of equal name and memory are equal
	Memory  int64  // bytes a process may use of it; 0 = unknown
	Shared  bool   // its memory is the machine's RAM
	Display bool   // somebody looks at it
	Unfit   string // why models are not put there; "" = they are
	Never   bool   // not even when the owner says so
}

// Cards takes over what was found on this machine.
func Cards(found []gpu.Card) []Card {
	all := make([]Card, 0, len(found))
	for _, c := range found {
		card := Card{Accel: c.Accel, Index: c.Index, Name: c.Name, Shared: c.Unified, Display: c.Display}
		if c.Memory != nil {
			card.Memory = *c.Memory
		}
		switch {
		case c.Integrated:
			card.Unfit = "it is part of the processor"
		case c.Split:
			card.Unfit, card.Never = "it is cut into MIG instances", true
		}
		all = append(all, card)
	}
	return all
}

// room is what models may take of the card.
func (c Card) room() int64 {
	switch {
	case c.Accel == engine.AccelMetal: // the working set that macOS grants is net
		return c.Memory
	case c.Display:
		return max(c.Memory-headroom-displayRoom, 0)
	}
	return max(c.Memory-headroom, 0)
}

func (c Card) equal(o Card) bool {
	return c.Accel == o.Accel && c.Name == o.Name && c.Memory == o.Memory && c.Shared == o.Shared
}

// sorted is the machine with its cards in their own order, whatever order they were listed in, and with what shared cards
// leave unsaid: all of RAM is theirs.
func (m Machine) sorted() Machine {
	m.Memory = min(max(m.Memory, 0), mostBytes)
	m.Cards = slices.Clone(m.Cards)
	for i := range m.Cards {
		c := &m.Cards[i]
		c.Memory = min(max(c.Memory, 0), mostBytes)
		if c.Shared && c.Memory == 0 {
			c.Memory = m.Memory
		}
	}
	slices.SortStableFunc(m.Cards, func(a, b Card) int {
		return cmp.Or(strings.Compare(string(a.Accel), string(b.Accel)), a.Index-b.Index, strings.Compare(a.Name, b.Name), cmp.Compare(a.Memory, b.Memory))
	})
	return m
}

// card finds one by its family and index; a Mac's only card has none.
func (m Machine) card(accel engine.Accel, index int) (int, bool) {
	i := slices.IndexFunc(m.Cards, func(c Card) bool {
		return c.Accel == accel && (c.Index == index || accel == engine.AccelMetal)
	})
	return i, i >= 0
}

// rest is the RAM that no engine gets.
func (m Machine) rest() int64 { return min(restOfAll, m.Memory/8) }

// cardsWord writes "card 0" or "cards 0+1".
func cardsWord(indices []int) string {
	words := make([]string, len(indices))
	for i, n := range indices {
		words[i] = strconv.Itoa(n)
	}
	if len(words) == 1 {
		return "card " + words[0]
	}
	return "cards " + strings.Join(words, "+")
}
