package plan

import (
	"slices"

	"viiwork/engine"
)

// ledger is a machine with what is already given away of it.
type ledger struct {
	Machine
	used  []int64          // by card
	owner []string         // by card: the last model that took of it
	ram   int64            // given away
	files map[string]int64 // bytes of RAM counted for each model file: its pages are shared
	big   string           // the model that takes most of RAM
	most  int64
}

func newLedger(m Machine) *ledger {
	m = m.sorted()
	return &ledger{Machine: m, used: make([]int64, len(m.Cards)), owner: make([]string, len(m.Cards)), files: map[string]int64{}}
}

// bill is what a model takes.
type bill struct {
	cards []int64 // bytes of each card of the machine
	ram   int64
	file  int64 // of ram: its file's pages
	vague bool  // not all: a figure it depends on is not known
}

// charge works out the bill; the model's cards are known to be there.
func (l *ledger) charge(m Model) bill {
	b := bill{cards: make([]int64, len(l.Cards)), vague: !m.known()}
	for _, group := range l.places(m) {
		if len(group) == 0 {
			b.ram = min(b.ram+m.inMemory(), mostBytes)
			continue
		}
		if slices.ContainsFunc(group, func(card int) bool { return l.Cards[card].Memory == 0 }) {
			b.vague = true // how the engine would spread it is not known either
			continue
		}
		rooms := make([]int64, len(group))
		for i, card := range group {
			rooms[i] = l.Cards[card].room()
		}
		for i, s := range m.shares(rooms) {
			card := group[i]
			b.cards[card] = min(b.cards[card]+s.sum(), mostBytes)
			if l.Cards[card].Shared {
				b.ram = min(b.ram+s.sum(), mostBytes)
			}
		}
	}
	pages := m.File.Input
	if m.Accel == engine.AccelNone {
		pages = m.File.Size + m.Extra
	}
	b.file = max(min(pages, mostBytes)-l.files[m.File.Path], 0)
	b.ram += b.file
	for range m.Groups {
		b.ram = min(b.ram+max(m.PromptCache, 0), mostBytes)
	}
	return b
}

// places are the model's groups as positions in the machine's list; an empty one has no card.
func (l *ledger) places(m Model) [][]int {
	all := make([][]int, len(m.Groups))
	for g, group := range m.Groups {
		if m.Accel == engine.AccelMetal {
			group = []int{0}
		}
		if m.Accel == engine.AccelNone {
			continue
		}
		for _, index := range group {
			if at, ok := l.card(m.Accel, index); ok {
				all[g] = append(all[g], at)
			}
		}
	}
	return all
}

// over is the first card that the bill is too much for, -1 when all can bear it.
func (l *ledger) over(b bill) int {
	for i, c := range l.Cards {
		if b.cards[i] > 0 && l.used[i]+b.cards[i] > c.room() {
			return i
		}
	}
	return -1
}

// overRAM tells whether the bill is too much for the machine's memory.
func (l *ledger) overRAM(b bill) bool {
	return l.Memory > 0 && l.ram+b.ram > l.Memory-l.rest()
}

func (l *ledger) fits(m Model) bool {
	b := l.charge(m)
	return l.over(b) < 0 && !l.overRAM(b)
}

// book takes what the bill says.
func (l *ledger) book(m Model, b bill) {
	for i, bytes := range b.cards {
		if bytes > 0 {
			l.used[i] = min(l.used[i]+bytes, mostBytes)
			l.owner[i] = m.Name
		}
	}
	for _, group := range l.places(m) {
		for _, card := range group {
			l.owner[card] = m.Name
		}
	}
	l.ram = min(l.ram+b.ram, mostBytes)
	if b.file > 0 {
		l.files[m.File.Path] += b.file
	}
	if b.ram > l.most {
		l.most, l.big = b.ram, m.Name
	}
}

// back undoes the booking of a model whose figures are still the same. Its file stays counted as long as others may use
// it, which is to say its owner books it again.
func (l *ledger) back(m Model) {
	b := l.charge(m)
	for i, bytes := range b.cards {
		l.used[i] = max(l.used[i]-bytes, 0)
	}
	l.ram = max(l.ram-b.ram, 0)
}
