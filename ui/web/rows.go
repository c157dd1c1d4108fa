package web

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"viiwork/appliance/status"
)

// row is one row of a board by the names of its JSON. So the first paint and what is told later come from one thing.
type row map[string]any

// figure is nought for a field that is missing or no number.
func (r row) figure(name string) float64 {
	f, _ := r[name].(float64)
	return f
}

// kinds are the lists of a board, by their JSON names.
var kinds = []string{"totals", "machines", "cards", "engines", "slots", "models", "requests", "pairs", "moves", "firsts", "uses", "turns", "aliases", "warnings"}

// rowsOf takes a board apart.
func rowsOf(b status.Board) map[string][]row {
	doc, err := json.Marshal(b)
	if err != nil { // a figure that is no number: it is left out with all else, and the page says nothing rather than something wrong
		return map[string][]row{}
	}
	var lists map[string]json.RawMessage
	_ = json.Unmarshal(doc, &lists)
	all := make(map[string][]row, len(kinds))
	for _, kind := range kinds {
		var rows []row
		_ = json.Unmarshal(lists[kind], &rows)
		all[kind] = rows
	}
	return all
}

// Rows lists the rows of a kind: those whose field only is true ("!field": is not), by a field ("-field": the largest first).
func (v *view) Rows(kind, only, by string) []row {
	var some []row
	for _, r := range v.rows[kind] {
		if chosen(r, only) {
			some = append(some, r)
		}
	}
	inOrder(some, by)
	return some
}

// mostListed is how many requests or sessions a page lists that was not asked for all: the browser lays out a table as a whole,
// and is to have that done within a frame.
const mostListed = 50

// Most is how many rows of a long list the page has, 0 = all.
func (v *view) Most() int {
	if v.All {
		return 0
	}
	return mostListed
}

// First are those of a long list's rows that the page has.
func (v *view) First(rows []row) []row { return atMost(rows, v.Most()) }

// atMost are the first of all, 0 = all of them.
func atMost[T any](all []T, most int) []T {
	if most > 0 && len(all) > most {
		return all[:most]
	}
	return all
}

// In lists the rows of a kind that belong to another row: whose field is that.
func (v *view) In(kind, field string, is any, by string) []row {
	var some []row
	for _, r := range v.rows[kind] {
		if r[field] == is {
			some = append(some, r)
		}
	}
	inOrder(some, by)
	return some
}

// chosen tells whether each of the fields named, with spaces between, is as it should be.
func chosen(r row, only string) bool {
	for _, field := range strings.Fields(only) {
		name, not := strings.CutPrefix(field, "!")
		if on, _ := r[name].(bool); on == not {
			return false
		}
	}
	return true
}

func inOrder(rows []row, by string) {
	name, down := strings.CutPrefix(by, "-")
	if name == "" {
		return
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		c := compare(x[name], y[name])
		if down {
			c = -c
		}
		return cmp.Or(c, compare(x["key"], y["key"]))
	})
}

// compare puts what is not known first, as the pages' scripts do.
func compare(x, y any) int {
	switch a := x.(type) {
	case float64:
		if b, ok := y.(float64); ok {
			return cmp.Compare(a, b)
		}
		return 1
	case string:
		if b, ok := y.(string); ok {
			return strings.Compare(a, b)
		}
		return 1
	case bool:
		b, _ := y.(bool)
		switch {
		case a == b:
			return 0
		case a:
			return 1
		}
		return -1
	}
	if y == nil {
		return 0
	}
	return -1
}
