package top

import (
	"fmt"
	"math"

	"viiwork/appliance/status"
)

// barWide is how many columns a card's bars have.
const barWide = 10

// cards lists the graphics cards of this machine, or of all that tell. Memory is what is used, whoever uses it, not what was
// planned.
func (p picture) cards(g glyphs, mesh bool) table {
	t := table{kind: cardKind, title: "graphics cards of " + p.whose(mesh), none: "no graphics cards", columns: []column{
		{title: "GPU"}, {title: "MACHINE", flex: true}, {title: "MEMORY USED", drop: 3}, {title: "GIB", right: true}, {title: "LOAD", drop: 4}, {title: "BUSY", right: true},
		{title: "TEMP", right: true, drop: 1}, {title: "POWER", right: true, drop: 2}, {title: "MODEL", flex: true, drop: 6}, {title: "NAME", drop: 5, flex: true},
	}}
	for _, c := range p.seen(mesh) {
		t.rows = append(t.rows, row{key: cardWord(c) + " of " + c.Node, model: p.hereAt(c.Node, c.Model), cells: []cell{
			word(cardWord(c)), word(c.Node), memoryBar(g, c), memory(c), loadBar(g, c.Busy), amount(share(c.Busy), number(c.Busy)),
			heat(c), power(c), word(orUnknown(c.Model)), word(orUnknown(c.Name)),
		}})
	}
	if !mesh { // its name stands in the title
		return t.without(1)
	}
	return t
}

func cardWord(c status.Card) string { return fmt.Sprintf("%s %d", c.Accel, c.Index) }

func memoryBar(g glyphs, c status.Card) cell {
	if c.Memory == nil || c.Used == nil || *c.Memory <= 0 {
		return amount(unknown, math.NaN())
	}
	part := float64(*c.Used) / float64(*c.Memory)
	return amount(g.bar(part, barWide), part)
}

func loadBar(g glyphs, busy *float64) cell {
	if busy == nil {
		return amount(unknown, math.NaN())
	}
	return amount(g.bar(*busy, barWide), *busy)
}

// memory is "14.0/24.0".
func memory(c status.Card) cell {
	gib := func(n *int64) string {
		if n == nil {
			return unknown
		}
		return fmt.Sprintf("%.1f", float64(*n)/(1<<30))
	}
	if c.Memory == nil && c.Used == nil {
		return amount(unknown, math.NaN())
	}
	return amount(gib(c.Used)+"/"+gib(c.Memory), number(c.Used))
}

// warm is where a card's makers begin to slow it down, hot where they nearly all do.
const warm, hot = 80, 90

// heat is "61°C", with a mark where the card slows down for it.
func heat(of status.Card) cell {
	c := amount(figure(of.Celsius, "°C"), number(of.Celsius))
	switch {
	case of.Hot:
		c.text, c.mood = c.text+"!", bad
	case of.Celsius == nil:
	case *of.Celsius >= hot:
		c.mood = bad
	case *of.Celsius >= warm:
		c.mood = warn
	}
	return c
}

// power is "171/225 W".
func power(c status.Card) cell {
	if c.Watts == nil {
		return amount(unknown, math.NaN())
	}
	text := figure(c.Watts, "")
	if c.CapWatts != nil {
		text += "/" + figure(c.CapWatts, "")
	}
	return amount(text+" W", *c.Watts)
}
