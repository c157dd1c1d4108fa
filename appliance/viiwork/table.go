package main

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// table draws rows in columns as wide as their widest cell, two spaces apart. Nothing in it is right-aligned or
// shortened: what is copied out of it is what the node said.
type table struct {
	bold bool // print the head in bold
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (t *table) draw(out *bytes.Buffer) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(cells []string) string {
		var b strings.Builder
		for i, cell := range cells {
			b.WriteString(cell)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	out.WriteString(emphasis(line(t.head), t.bold) + "\n")
	for _, row := range t.rows {
		out.WriteString(line(row) + "\n")
	}
}

// emphasis makes text bold for a terminal.
func emphasis(text string, bold bool) string {
	if !bold {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// printable replaces control characters: names and an engine's last words come from files and programs, and must not
// drive the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		if r == '\t' {
			return ' '
		}
		return '·'
	}, text)
}

// indent keeps text of several lines together below its first, by so many spaces.
func indent(text string, by int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", by))
}
