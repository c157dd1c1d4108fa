package top

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// column is one of a table. Where the screen is too narrow, those with the highest drop go first; those that
// flex are cut before.
type column struct {
	title string
	right bool
	drop  int
	flex  bool
}

// cell is one figure or name.
type cell struct {
	text string
	sort float64 // what figures are ordered by; NaN = not known
	word bool    // it is ordered by its text instead
	mood mood
}

// mood is how a cell is coloured. Its text says the same.
type mood int

const (
	calm mood = iota
	good
	warn
	bad
	dim
)

func word(text string) cell { return cell{text: clean(text), word: true} }

func (c cell) in(m mood) cell { c.mood = m; return c }

func amount(text string, sort float64) cell { return cell{text: text, sort: sort} }

// kind is what a table's rows are.
type kind int

const (
	machineKind kind = iota
	modelKind
	backendKind
	cardKind
	requestKind
)

// row is one machine, backend, card or request.
type row struct {
	key   string // what it is, the same in every picture
	model string // whose engines' log belongs to it, "" = none
	cells []cell
}

// table is what one panel shows.
type table struct {
	kind    kind
	title   string
	columns []column
	rows    []row
	none    string // said where there are no rows
}

// without leaves a column out.
func (t table) without(column int) table {
	t.columns = slices.Delete(t.columns, column, column+1)
	for i := range t.rows {
		t.rows[i].cells = slices.Delete(t.rows[i].cells, column, column+1)
	}
	return t
}

// narrowed leaves the rows in which a text occurs.
func (t table) narrowed(by string) table {
	if by = strings.ToLower(by); by == "" {
		return t
	}
	t.rows = slices.DeleteFunc(slices.Clone(t.rows), func(r row) bool {
		return !slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), by) })
	})
	return t
}

// sorted orders the rows by a column; below 0 they stay in the node's own order.
func (t table) sorted(by int, down bool) table {
	if by < 0 || by >= len(t.columns) {
		return t
	}
	t.rows = slices.Clone(t.rows)
	slices.SortStableFunc(t.rows, func(x, y row) int {
		a, b := x.cells[by], y.cells[by]
		if a.word {
			return turned(strings.Compare(strings.ToLower(a.text), strings.ToLower(b.text)), down)
		}
		switch nowhere, nor := math.IsNaN(a.sort), math.IsNaN(b.sort); {
		case nowhere && nor:
			return 0
		case nowhere:
			return 1
		case nor:
			return -1
		}
		return turned(cmp.Compare(a.sort, b.sort), down)
	})
	return t
}

func turned(order int, down bool) int {
	if down {
		return -order
	}
	return order
}

// gap is between two columns.
const gap = 2

// widths are those of the columns on a screen of so many; 0 = the column is left out. Without a screen (0) all are as wide as
// they need.
func (t table) widths(screen int) []int {
	w := make([]int, len(t.columns))
	for i, c := range t.columns {
		w[i] = width(c.title)
		for _, r := range t.rows {
			w[i] = max(w[i], width(r.cells[i].text))
		}
	}
	for screen > 0 && total(w) > screen {
		last := -1
		for i, c := range t.columns {
			if w[i] > 0 && c.drop > 0 && (last < 0 || c.drop > t.columns[last].drop) {
				last = i
			}
		}
		if last < 0 {
			t.squeeze(w, screen)
			break
		}
		if over := total(w) - screen; !t.squeezed(w, over) {
			w[last] = 0
		}
	}
	return w
}

// leastName is what is left at least of a name before a column is given up for it.
const leastName = 16

// squeezed cuts a flexible column where that is enough, the last one first.
func (t table) squeezed(w []int, over int) bool {
	for i, c := range slices.Backward(t.columns) {
		if c.flex && w[i]-over >= leastName {
			w[i] -= over
			return true
		}
	}
	return false
}

// squeeze cuts the widest until all fit.
func (t table) squeeze(w []int, screen int) {
	for over := total(w) - screen; over > 0; over-- {
		widest := 0
		for i := range w {
			if w[i] > w[widest] {
				widest = i
			}
		}
		if w[widest] <= 1 {
			return
		}
		w[widest]--
	}
}

func total(w []int) (sum int) {
	for _, n := range w {
		if n > 0 {
			sum += n + gap
		}
	}
	return max(0, sum-gap)
}
