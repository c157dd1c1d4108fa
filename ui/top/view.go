package top

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/help"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// styles use the terminal's own sixteen colours, which its owner can read.
type styles struct {
	title, chosen, head lipgloss.Style
	moods               [dim + 1]lipgloss.Style
}

func newStyles() styles {
	plain := lipgloss.NewStyle()
	return styles{
		title: plain.Bold(true), chosen: plain.Reverse(true), head: plain.Faint(true),
		moods: [...]lipgloss.Style{calm: plain, good: plain.Foreground(lipgloss.Green), warn: plain.Foreground(lipgloss.Yellow), bad: plain.Foreground(lipgloss.Red).Bold(true), dim: plain.Faint(true)},
	}
}

func (s styles) help() help.Styles {
	plain := lipgloss.NewStyle()
	return help.Styles{ShortKey: s.title, FullKey: s.title, ShortDesc: plain, FullDesc: plain, ShortSeparator: plain, FullSeparator: plain, Ellipsis: plain}
}

// View is bubbletea's: the whole screen, of which it writes what has changed.
func (s *screen) View() tea.View {
	lines := s.header()
	switch {
	case s.helping:
		lines = append(lines, strings.Split(s.help.FullHelpView(s.keys.FullHelp()), "\n")...)
	case s.opened != nil:
		lines = append(lines, s.style.title.Render(fit(s.opened.title, s.wide, false)))
		lines = append(lines, strings.Split(s.opened.view.View(), "\n")...)
	default:
		lines = append(lines, s.panels(s.high-len(lines)-1)...)
	}
	lines = lines[:min(len(lines), max(0, s.high-1))]
	for len(lines) < s.high-1 {
		lines = append(lines, "")
	}
	v := tea.NewView(strings.Join(append(lines, s.footer()), "\n"))
	v.AltScreen = true
	v.WindowTitle = "viiwork top"
	return v
}

// header is how the node is, and what is wrong.
func (s *screen) header() []string {
	now := s.cfg.Now().Format("15:04:05")
	if s.paused {
		now = "paused " + s.picture.at.Format("15:04:05")
	}
	room := s.wide - width(now) - 1
	lines := []string{s.style.title.Render(fit(s.picture.headline(s.mesh), room, false)) + " " + now}
	if room <= 0 {
		lines[0] = fit(now, s.wide, false)
	}
	switch w := s.picture.node.Warnings; {
	case s.lost != "":
		text := fmt.Sprintf("%s since %s", strings.TrimSuffix(s.lost, ": trying again"), s.lostAt.Format("15:04:05"))
		lines = append(lines, s.style.moods[bad].Render(fit(text+": trying again; this is how it was at "+s.picture.at.Format("15:04:05"), s.wide, false)))
	case len(w) > 0:
		text := "warning: " + warned(w[0].Text, w[0].Fix)
		if len(w) > 1 {
			text = fmt.Sprintf("%s, the first: %s", things(len(w), "warning"), warned(w[0].Text, w[0].Fix))
		}
		lines = append(lines, s.style.moods[warn].Render(fit(text, s.wide, false)))
	}
	return lines
}

// footer is the help line, or the filter while it is typed.
func (s *screen) footer() string {
	switch {
	case s.asking:
		return s.ask.View()
	case s.helping:
		return fit("any key: back", s.wide, false)
	case s.opened != nil:
		return s.help.ShortHelpView(s.keys.away())
	}
	return s.help.ShortHelpView(s.keys.ShortHelp())
}

// overhead is the lines of a panel beside its rows: its title and those of its columns.
const overhead = 2

// panels are the tables, on so many lines. Where not even their titles have room, the chosen one is shown alone.
func (s *screen) panels(lines int) []string {
	shown := s.order()
	if lines < len(shown)*(overhead+1) {
		shown = []kind{shown[s.focus]}
	}
	wants := make([]int, len(shown))
	for i, k := range shown {
		wants[i] = max(1, len(s.panes[k].table.rows))
	}
	high := heights(wants, lines-overhead*len(shown))
	var out []string
	for i, k := range shown {
		out = append(out, s.draw(s.panes[k], high[i])...)
	}
	return out
}

// draw is one panel with so many rows.
func (s *screen) draw(p *pane, rows int) []string {
	from, to := p.scroll(rows)
	t := p.table
	w := t.widths(s.wide)
	focused := p == s.pane()
	lines := []string{s.rule(p, from, to, focused), s.style.head.Render(fit(t.titles(w), s.wide, false))}
	if len(t.rows) == 0 {
		none := t.none
		if p.all > 0 {
			none = "none of " + fmt.Sprint(p.all) + " fits the filter"
		}
		return append(lines, fit(none, s.wide, false))[:min(len(lines)+1, overhead+rows)]
	}
	for i := from; i < to; i++ {
		lines = append(lines, s.line(t, w, i, focused && i == p.at))
	}
	return lines
}

// rule is a panel's title on a line across the screen.
func (s *screen) rule(p *pane, from, to int, focused bool) string {
	text := p.table.title
	if n := len(p.table.rows); to-from < n {
		text += fmt.Sprintf("  %d-%d of %d", from+1, to, n)
	}
	if p.sort >= 0 {
		way := "up"
		if p.down {
			way = "down"
		}
		text += "  by " + strings.ToLower(p.table.columns[p.sort].title) + ", " + way
	}
	if p.filter != "" {
		text += "  filter: " + clean(p.filter)
	}
	line := s.glyphs.rule + " " + text + " "
	line += strings.Repeat(s.glyphs.rule, max(0, s.wide-width(line)))
	if focused {
		return s.style.title.Render(fit(line, s.wide, false))
	}
	return s.style.head.Render(fit(line, s.wide, false))
}

func (s *screen) line(t table, w []int, at int, chosen bool) string {
	var b strings.Builder
	for i, c := range t.rows[at].cells {
		if w[i] == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		text := fit(c.text, w[i], t.columns[i].right)
		if !chosen && c.mood != calm {
			text = s.style.moods[c.mood].Render(text)
		}
		b.WriteString(text)
	}
	if chosen {
		return s.style.chosen.Render(fit(b.String(), s.wide, false))
	}
	return ansi.Truncate(b.String(), s.wide, "") // a screen may be narrower than the gaps
}
