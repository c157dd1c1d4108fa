package top

import "slices"

// pane is one panel on the screen: a table, and what the user has made of it.
type pane struct {
	table  table // as it is shown: narrowed and sorted
	all    int   // rows there are, before the filter
	sort   int   // column, -1 = the node's own order
	down   bool
	filter string

	key string // of the chosen row: it stays chosen when others come and go
	at  int
	top int // first row on the screen
}

// set takes the next picture's table over.
func (p *pane) set(t table) {
	p.all = len(t.rows)
	p.table = t.narrowed(p.filter).sorted(p.sort, p.down)
	if i := slices.IndexFunc(p.table.rows, func(r row) bool { return r.key == p.key }); i >= 0 {
		p.at = i
	}
	p.move(0)
}

// move goes so many rows on.
func (p *pane) move(by int) {
	p.at = max(0, min(len(p.table.rows)-1, p.at+by))
	if r, ok := p.chosen(); ok {
		p.key = r.key
	}
}

func (p *pane) chosen() (row, bool) {
	if p.at >= len(p.table.rows) {
		return row{}, false
	}
	return p.table.rows[p.at], true
}

// scroll brings the chosen row onto a screen of so many and says which rows are there.
func (p *pane) scroll(rows int) (from, to int) {
	rows = max(0, rows)
	p.top = min(p.top, p.at, max(0, len(p.table.rows)-rows))
	if p.at >= p.top+rows {
		p.top = p.at - rows + 1
	}
	return p.top, min(len(p.table.rows), p.top+rows)
}

// turnTo sorts by the next column, after the last one as the node does.
func (p *pane) turnTo() {
	if p.sort++; p.sort >= len(p.table.columns) {
		p.sort = -1
	}
	p.down = p.sort >= 0 && p.table.columns[p.sort].right // of figures the greatest are looked for
	p.toTop()
}

// toTop chooses the first row: who sorts wants to see what comes first.
func (p *pane) toTop() { p.at, p.top, p.key = 0, 0, "" }

// heights shares so many lines out: a panel gets what it needs, and where there is too little for all, the same as the others.
func heights(wants []int, lines int) []int {
	got := make([]int, len(wants))
	for lines > 0 {
		least := -1
		for i := range wants {
			if got[i] < wants[i] && (least < 0 || got[i] < got[least]) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		got[least]++
		lines--
	}
	return got
}
