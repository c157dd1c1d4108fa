package plan

import (
	"errors"
	"fmt"
	"slices"

	"viiwork/engine"
)

// Measured is what is taken of a machine at this moment, by all programs.
type Measured struct {
	// Used is how many bytes of a card are taken; false = not known. It is not asked about cards that share the machine's memory.
	Used func(accel engine.Accel, index int) (bytes int64, known bool)
	// Available is the RAM that programs can have without others being pushed out; 0 = not known.
	Available int64
}

// Beside says, as an error, why a second engine of one backend of a planned model cannot be held beside all that the plan
// holds: nil = it can. It goes by what was planned and by what is measured, whichever leaves less, and keeps the plan's
// head-room. What is not known has no room: the engine that serves already would pay for a wrong guess.
//
// Both engines' files count where they run without cards, since such an engine may lay its weights out anew. The second one's
// prompt cache is empty as long as the first one is there: of it no more than the smallest is looked for in what is free, and
// nothing in what is planned.
func (p *Plan) Beside(name string, group []int, now Measured) error {
	at := slices.IndexFunc(p.Models, func(m Model) bool { return m.Name == name })
	if p.ledger == nil || at < 0 {
		return errors.New("the model is not in the plan")
	}
	l, m := p.ledger, p.Models[at]
	cache := min(max(m.PromptCache, 0), leastCache)
	m.Groups, m.PromptCache = [][]int{group}, 0
	switch {
	case !m.known() || m.ByHand:
		return errors.New("what it takes is not known")
	case m.Accel != engine.AccelNone && len(l.places(m)[0]) != max(len(group), 1):
		return errors.New("its cards are not known")
	}
	b := l.charge(m)
	if m.Accel == engine.AccelNone {
		b.ram += min(m.File.Size+m.Extra, mostBytes) - b.file
	}
	switch {
	case b.vague:
		return errors.New("the memory of its cards is not told")
	case l.Memory == 0 || now.Available <= 0:
		return errors.New("how much of this machine's memory is free is not known")
	}
	for i, bytes := range b.cards {
		if bytes == 0 {
			continue
		}
		if err := l.holds(i, bytes, now); err != nil {
			return err
		}
	}
	free := min(l.Memory-l.ram, now.Available-cache) - l.rest()
	if b.ram > free {
		return fmt.Errorf("a second one needs %s of RAM, %s is free", size(b.ram), size(max(free, 0)))
	}
	return nil
}

// holds says why a card cannot hold so many bytes more.
func (l *ledger) holds(at int, bytes int64, now Measured) error {
	c, used := l.Cards[at], l.used[at]
	if !c.Shared { // else what is free of the machine's memory decides
		taken, known := int64(0), false
		if now.Used != nil {
			taken, known = now.Used(c.Accel, c.Index)
		}
		if !known {
			return fmt.Errorf("how much of card %d is free is not known", c.Index)
		}
		used = max(used, taken)
	}
	if free := c.room() - used; bytes > free {
		return fmt.Errorf("a second one needs %s of card %d, %s is free", size(bytes), c.Index, size(max(free, 0)))
	}
	return nil
}
