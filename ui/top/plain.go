package top

import (
	"fmt"
	"strings"
	"time"
)

// panels are the tables of the picture.
func (cfg Config) panels(p picture, mesh bool) []table {
	g := cfg.glyphs()
	if mesh {
		return []table{p.machines(g), p.models(g), p.cards(g, true), p.inFlight(true)}
	}
	return []table{p.backends(g), p.cards(g, false), p.inFlight(false)}
}

// headline is how it stands in one line. A sum over the mesh says of how many machines it is one.
func (p picture) headline(mesh bool) string {
	n := p.node
	head, l, whose := n.Node+" is "+n.State, p.own(), things(len(n.Members), "machine")
	if mesh {
		heard := 0
		for _, m := range n.Members {
			if m.State == "alive" || m.State == "draining" {
				heard++
			}
		}
		head, l = head+" · mesh:", p.load()
		if heard < len(n.Members) {
			whose = fmt.Sprintf("%d of %s heard", heard, whose)
		}
	} else {
		head += " ·"
	}
	return clean(fmt.Sprintf("%s %s slots busy, %s waiting · %s · %s", head, of(l.busy, l.slots), count(l.queued), whose, n.Version))
}

// plain is the picture as text, nothing cut off.
func (cfg Config) plain(p picture) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", p.at.Format(time.TimeOnly), p.headline(cfg.Mesh))
	for _, t := range cfg.panels(p, cfg.Mesh) {
		b.WriteString("\n" + strings.ToUpper(t.title[:1]) + t.title[1:] + "\n")
		if len(t.rows) == 0 {
			b.WriteString("  " + t.none + "\n")
			continue
		}
		w := t.widths(0)
		for _, line := range t.lines(w) {
			b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
	}
	for i, warning := range p.node.Warnings {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "warning: %s\n", warned(warning.Text, warning.Fix))
	}
	b.WriteByte('\n')
	return b.String()
}

func warned(text, fix string) string {
	if fix != "" {
		text += ": " + fix
	}
	return clean(text)
}

// lines are the titles and the rows in columns of these widths.
func (t table) lines(w []int) []string {
	lines := []string{t.titles(w)}
	for _, r := range t.rows {
		var parts []string
		for i, c := range r.cells {
			if w[i] > 0 {
				parts = append(parts, fit(c.text, w[i], t.columns[i].right))
			}
		}
		lines = append(lines, strings.Join(parts, strings.Repeat(" ", gap)))
	}
	return lines
}

func (t table) titles(w []int) string {
	var parts []string
	for i, c := range t.columns {
		if w[i] > 0 {
			parts = append(parts, fit(c.title, w[i], c.right))
		}
	}
	return strings.Join(parts, strings.Repeat(" ", gap))
}
