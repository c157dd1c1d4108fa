package plan

import (
	"fmt"
	"slices"
	"strings"

	"viiwork/engine"
)

// tooMuch says what a model needs, what its cards have, and what would do instead; key is what to change.
func (l *ledger) tooMuch(m Model, card int) (key, text string) {
	group := l.places(m)[0]
	for _, g := range l.places(m) {
		if slices.Contains(g, card) {
			group = g
			break
		}
	}
	one := m
	one.Groups = [][]int{l.indices(group)}
	b := l.charge(one)
	var need, room, used int64
	for _, at := range group {
		need += b.cards[at]
		room += l.Cards[at].room()
		used += l.used[at]
	}
	text = fmt.Sprintf("needs %s at %s, %s %s %s", size(need), m.seats(), l.placeWord(group), has(len(group)), size(room))
	switch {
	case used > 0:
		text += fmt.Sprintf(", %s used by %s", size(used), l.owner[card])
	case need <= room && len(group) > 1:
		text += fmt.Sprintf(", but card %d would hold %s of %s", l.Cards[card].Index, size(b.cards[card]), size(l.Cards[card].room()))
	}
	key, way := l.wayOut(m)
	return key, text + "; " + way
}

// tooMuchRAM is tooMuch for the machine's memory.
func (l *ledger) tooMuchRAM(m Model, b bill) (key, text string) {
	text = fmt.Sprintf("needs %s of RAM at %s, this machine has %s for engines", size(b.ram), m.seats(), size(l.Memory-l.rest()))
	if l.ram > 0 {
		text += fmt.Sprintf(", %s used by %s", size(l.ram), l.big)
	}
	less := m
	if less.PromptCache = 0; m.PromptCache > 0 {
		if rest := l.Memory - l.rest() - l.ram - l.charge(less).ram; rest >= 0 {
			each := rest / int64(max(len(m.Groups), 1)) / cacheStep * cacheStep
			return "llamacpp.prompt_cache", text + fmt.Sprintf("; fits with a prompt cache of %dMiB", each/mib)
		}
	}
	key, way := l.wayOut(m)
	if key == "path" || key == "gpus" { // the cache alone may be too much
		if smaller, also := l.wayOut(less); smaller != key {
			return smaller, text + "; " + also + " and no prompt cache"
		}
	}
	return key, text + "; " + way
}

// wayOut looks for what does fit: an even split, fewer slots, a shorter context, then both.
func (l *ledger) wayOut(m Model) (key, text string) {
	less := m
	if less.Shares = nil; len(m.Shares) > 0 && l.fits(less) {
		return "llamacpp.split_weights", "fits without split_weights"
	}
	less = m
	for less.Slots = m.Slots - 1; less.Slots >= 1; less.Slots-- {
		if l.fits(less) {
			return "parallel", "fits with " + count(less.Slots, "slot")
		}
	}
	for _, slots := range []int{m.Slots, 1} {
		less.Slots = slots
		for tokens := m.Context / 2 / 1024 * 1024; tokens >= leastContext; tokens = tokens / 2 / 1024 * 1024 {
			if less.Context = tokens; !l.fits(less) {
				continue
			}
			if slots == m.Slots {
				return "context", fmt.Sprintf("fits with context %d", tokens)
			}
			return "context", fmt.Sprintf("fits with context %d in 1 slot", tokens)
		}
	}
	if m.Accel == engine.AccelNone || m.Accel == engine.AccelMetal || l.hasAll(m) {
		return "path", "use a smaller model or quantisation"
	}
	return "gpus", "give it more cards a backend (gpus_per_backend), or use a smaller model or quantisation"
}

// hasAll tells whether each backend already has all cards of the family that models may have.
func (l *ledger) hasAll(m Model) bool {
	there := 0
	for _, c := range l.Cards {
		if c.Accel == m.Accel && c.Unfit == "" {
			there++
		}
	}
	return len(m.Groups) > 0 && len(m.Groups[0]) >= there
}

// Sentence says what a model of the plan got.
func (p *Plan) Sentence(m Model) string {
	l := p.ledger
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", count(len(m.Groups), "backend"))
	switch places := l.places(m); {
	case m.Accel == engine.AccelNone:
		b.WriteString("without a card")
	case len(slices.Concat(places...)) == 0:
		b.WriteString("on cards that cannot be seen from here")
	default:
		var words []string
		fullest, part := -1, -1.0
		for _, group := range places {
			words = append(words, l.placeWord(group))
			for _, card := range group {
				if f := float64(l.used[card]) / float64(max(l.Cards[card].room(), 1)); f > part {
					fullest, part = card, f
				}
			}
		}
		fmt.Fprintf(&b, "on %s", strings.Join(slices.Compact(words), ", "))
		if c := l.Cards[fullest]; c.Memory > 0 {
			fmt.Fprintf(&b, " (%s of %s at the fullest)", size(l.used[fullest]), size(c.room()))
		}
	}
	fmt.Fprintf(&b, ", %s", m.seats())
	switch {
	case m.PromptCache > 0:
		fmt.Fprintf(&b, ", prompt cache %s each", size(m.PromptCache))
	case m.PromptCache == 0:
		b.WriteString(", no prompt cache")
	}
	return b.String()
}

// seats writes "4 × 32k".
func (m Model) seats() string {
	if m.Context > 0 && m.Context%1024 == 0 {
		return fmt.Sprintf("%d × %dk", m.Slots, m.Context/1024)
	}
	return fmt.Sprintf("%d × %d", m.Slots, m.Context)
}

func (l *ledger) indices(group []int) []int {
	all := make([]int, len(group))
	for i, at := range group {
		all[i] = l.Cards[at].Index
	}
	return all
}

func (l *ledger) placeWord(group []int) string {
	if len(group) == 1 && l.Cards[group[0]].Accel == engine.AccelMetal {
		return "the GPU"
	}
	return cardsWord(l.indices(group))
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size is bytes for people.
func size(n int64) string {
	switch {
	case n == 0:
		return "none"
	case n < gib:
		return fmt.Sprintf("%d MiB", (n+mib-1)/mib)
	case n%gib == 0:
		return fmt.Sprintf("%d GiB", n/gib)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/gib)
}
