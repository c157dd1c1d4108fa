package plan

import (
	"cmp"
	"slices"

	"viiwork/engine"
)

// seats is slots and context of a backend.
type seats struct{ slots, context int }

// leastContext is the shortest worth offering.
const leastContext = 4096

// decent is what makes a set of cards enough: more cards would buy memory, never speed, and serve better as a further
// backend.
var decent = seats{2, 32768}

// Agents hold long conversations, so a slot's length comes before the number of slots, up to 32k; then four slots, then
// length again.
func seatsOnCards() []seats {
	return []seats{{4, 131072}, {4, 65536}, {4, 32768}, {2, 49152}, decent, {1, 32768}, {2, 16384}, {1, 16384}, {1, 8192}, {1, leastContext}}
}

// Without cards a long prompt takes minutes: no more is offered than can be waited for.
func seatsInRAM() []seats {
	return []seats{{2, 16384}, {1, 16384}, {1, 8192}, {1, leastContext}}
}

// Texts to embed or rank come one after the other and are short.
func seatsForTexts() []seats { return []seats{{4, 8192}, {2, 8192}, {1, 8192}, {1, leastContext}} }

// mostProposed is the number of slots that are proposed when there is room for more.
const mostProposed = 8

// Propose places models, of which only name, file, cache types and what is loaded beside them matter, on the machine. The
// largest choose first. Each gets the fewest equal cards that hold it with decent seats, and, of what cards are left, a
// further backend each in turn; then its seats grow with the room there is. Cards that differ are joined only when no equal
// ones do, with shares by their memory. What no card holds runs in RAM if that holds it.
func Propose(machine Machine, models []Model) Plan {
	p := proposal{ledger: newLedger(machine), models: make([]Model, len(models)), refused: map[int]Refusal{}}
	order := make([]int, len(models))
	for i, m := range models {
		m.Accel, m.Groups, m.Shares, m.Split = engine.AccelNone, nil, nil, ""
		m.PromptCache = min(max(p.ledger.Memory/16, leastCache), unknownCache)
		if p.ledger.Memory < 8*leastCache {
			m.PromptCache = p.ledger.Memory / 16
		}
		p.models[i], order[i] = m.sane(), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(models[b].File.Size, models[a].File.Size) })
	for _, i := range order {
		p.place(i)
	}
	for again := true; again; {
		again = false
		for _, i := range order {
			again = p.replicate(i) || again
		}
	}
	for _, i := range order {
		p.grow(i)
	}
	return p.plan(machine)
}

// proposal is a plan in the making. Until it is made each backend is to leave some RAM for its prompt cache.
type proposal struct {
	ledger  *ledger
	models  []Model
	refused map[int]Refusal
}

// place finds a first backend for a model, with decent seats where there are any, else with the best there are.
func (p *proposal) place(i int) {
	m := p.models[i]
	for _, s := range append(m.wanted([]seats{decent}), m.wanted(seatsOnCards())...) {
		if p.onCards(i, s) {
			return
		}
	}
	for _, s := range m.wanted(seatsInRAM()) {
		if p.ledger.has(engine.AccelMetal) { // engines of a Mac use its GPU, whatever they are given
			break
		}
		m.Slots, m.Context, m.Groups = s.slots, s.context, [][]int{nil}
		if p.ledger.Memory > 0 && m.known() && p.ledger.fits(m) {
			p.take(i, m)
			return
		}
	}
	p.refused[i] = p.refusal(i)
}

// wanted are the seats to try, the best first, within what the model was trained for.
func (m Model) wanted(list []seats) []seats {
	trained := m.File.Context
	if m.File.Embedding || m.File.Rerank {
		list = seatsForTexts()
	}
	var within []seats
	for _, s := range list {
		if trained > 0 {
			s.context = min(s.context, trained)
		}
		if !slices.Contains(within, s) {
			within = append(within, s)
		}
	}
	return within
}

// onCards tries to seat the model on the fewest free equal cards, then on unequal ones.
func (p *proposal) onCards(i int, s seats) bool {
	for _, set := range p.sets() {
		m := p.models[i]
		m.Accel, m.Slots, m.Context = p.ledger.Cards[set[0]].Accel, s.slots, s.context
		m.Groups = [][]int{p.ledger.indices(set)}
		if m.Accel == engine.AccelMetal {
			m.Groups = [][]int{nil}
		} else if m.Shares = p.sharesOf(set); m.Shares != nil && len(m.File.Blocks) == 0 {
			continue
		}
		if m.known() && p.ledger.fits(m) {
			p.take(i, m)
			return true
		}
	}
	return false
}

// sharesOf are the parts of unequal cards by their memory, in GiB; none for equal ones.
func (p *proposal) sharesOf(set []int) []float64 {
	var parts []float64
	equal := true
	for _, at := range set {
		c := p.ledger.Cards[at]
		parts = append(parts, float64(c.room()*10/gib)/10)
		equal = equal && c.equal(p.ledger.Cards[set[0]])
	}
	if equal {
		return nil
	}
	return parts
}

// sets lists the sets of free cards a backend could have: one card, two equal ones, …; at last all of a family.
func (p *proposal) sets() [][]int {
	l := p.ledger
	var kinds [][]int
	families := map[engine.Accel][]int{}
	for at, c := range l.Cards {
		taken := l.owner[at] != "" && c.Accel != engine.AccelMetal
		if c.Unfit != "" || taken || c.Memory == 0 {
			continue
		}
		families[c.Accel] = append(families[c.Accel], at)
		k := slices.IndexFunc(kinds, func(kind []int) bool { return c.equal(l.Cards[kind[0]]) })
		if k < 0 {
			k, kinds = len(kinds), append(kinds, nil)
		}
		kinds[k] = append(kinds[k], at)
	}
	for _, kind := range kinds { // a card with a display comes last
		slices.SortStableFunc(kind, func(a, b int) int { return cmp.Compare(l.Cards[b].room(), l.Cards[a].room()) })
	}
	var sets [][]int
	for n := 1; n <= len(l.Cards); n++ {
		for _, kind := range kinds {
			if len(kind) >= n {
				sets = append(sets, slices.Sorted(slices.Values(kind[:n])))
			}
		}
	}
	for _, accel := range []engine.Accel{engine.AccelCUDA, engine.AccelROCm} {
		if all := families[accel]; len(all) > 1 {
			sets = append(sets, all)
		}
	}
	return sets
}

// grow gives a model on cards the best seats that there is room for on all its cards.
func (p *proposal) grow(i int) {
	m := p.models[i]
	if m.Accel == engine.AccelNone || p.refused[i].Key != "" {
		return
	}
	p.ledger.back(m)
	best := m
	for _, s := range m.wanted(seatsOnCards()) {
		if s.context < m.Context || s.slots < m.Slots {
			continue
		}
		if more := m; p.ledger.fits(more.with(s)) {
			best = more.with(s)
			break
		}
	}
	for more := best; !m.File.Embedding && !m.File.Rerank && more.Slots < mostProposed; best = more {
		if more.Slots++; !p.ledger.fits(more) {
			break
		}
	}
	p.take(i, best)
}

func (m Model) with(s seats) Model {
	m.Slots, m.Context = s.slots, s.context
	return m
}

// replicate gives a model a further backend on equal free cards.
func (p *proposal) replicate(i int) bool {
	l, m := p.ledger, p.models[i]
	if len(m.Groups) == 0 || m.Accel == engine.AccelNone || m.Accel == engine.AccelMetal || m.Shares != nil {
		return false
	}
	first := l.places(m)[0]
	for _, set := range p.sets() {
		if len(set) != len(first) || !l.Cards[set[0]].equal(l.Cards[first[0]]) || p.sharesOf(set) != nil {
			continue
		}
		one := m
		one.Groups = [][]int{l.indices(set)}
		if b := l.charge(one); l.over(b) < 0 && !l.overRAM(b) {
			l.book(one, b)
			p.models[i].Groups = append(p.models[i].Groups, one.Groups[0])
			return true
		}
	}
	return false
}

func (p *proposal) take(i int, m Model) {
	p.ledger.book(m, p.ledger.charge(m))
	p.models[i] = m
}
