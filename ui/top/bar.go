package top

import "strings"

// glyphs are the signs bars are made of. They tell part from whole without colour.
type glyphs struct{ full, empty, rule string }

func (cfg Config) glyphs() glyphs {
	if cfg.unicode() {
		return glyphs{full: "█", empty: "░", rule: "─"}
	}
	return glyphs{full: "#", empty: ".", rule: "-"}
}

// bar is so many columns wide. Whatever is not nothing is seen, and only what is full looks full.
func (g glyphs) bar(part float64, columns int) string {
	part = min(1, max(0, part))
	n := int(part*float64(columns) + 0.5)
	switch {
	case part > 0 && n == 0:
		n = 1
	case part < 1 && n == columns:
		n = columns - 1
	}
	return strings.Repeat(g.full, n) + strings.Repeat(g.empty, columns-n)
}

// slots is a sign for each slot of up to eight, a bar for more; "" where nobody knows.
func (g glyphs) slots(busy, slots *int) string {
	const most = 8
	switch {
	case busy == nil || slots == nil || *slots <= 0:
		return ""
	case *slots <= most:
		n := min(max(0, *busy), *slots)
		return strings.Repeat(g.full, n) + strings.Repeat(g.empty, *slots-n)
	}
	return g.bar(float64(*busy)/float64(*slots), most)
}
