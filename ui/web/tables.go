package web

import (
	"bytes"
	"encoding/json"

	"viiwork/appliance/status"
)

// fields are those of one row, as JSON.
type fields map[string]json.RawMessage

// table is the rows of one kind by their keys.
type table map[string]fields

// tables are all kinds of one board.
type tables map[string]table

// tablesOf takes a board apart for comparing.
func tablesOf(b status.Board) tables {
	doc, err := json.Marshal(b)
	if err != nil { // as rowsOf
		return tables{}
	}
	var lists map[string]json.RawMessage
	_ = json.Unmarshal(doc, &lists)
	all := make(tables, len(kinds))
	for _, kind := range kinds {
		var rows []fields
		_ = json.Unmarshal(lists[kind], &rows)
		t := make(table, len(rows))
		for _, r := range rows {
			var key string
			_ = json.Unmarshal(r["key"], &key)
			t[key] = r
		}
		all[kind] = t
	}
	return all
}

// snapshot tells everything.
func (t tables) snapshot() (all []message) {
	for _, kind := range kinds {
		rows := make([]fields, 0, len(t[kind]))
		for _, r := range t[kind] {
			rows = append(rows, r)
		}
		all = append(all, event("snapshot", kind, map[string]any{"kind": kind, "rows": rows}))
	}
	return all
}

// patch is what has changed in a kind.
type patch struct {
	Kind string            `json:"kind"`
	Set  map[string]fields `json:"set,omitempty"` // by key; the fields that are new or other ones
	Gone []string          `json:"gone,omitempty"`
}

// changes lead from one board to the next.
func (t tables) changes(next tables) (all []message) {
	for _, kind := range kinds {
		p := patch{Kind: kind, Set: map[string]fields{}}
		for key, now := range next[kind] {
			if other := changed(t[kind][key], now); len(other) > 0 {
				p.Set[key] = other
			}
		}
		for key := range t[kind] {
			if _, there := next[kind][key]; !there {
				p.Gone = append(p.Gone, key)
			}
		}
		if len(p.Set) > 0 || len(p.Gone) > 0 {
			all = append(all, event("patch", kind, p))
		}
	}
	return all
}

func changed(before, now fields) fields {
	if before == nil {
		return now
	}
	var other fields
	for name, v := range now {
		if !bytes.Equal(before[name], v) {
			if other == nil {
				other = fields{}
			}
			other[name] = v
		}
	}
	return other
}
