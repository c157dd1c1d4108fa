package mesh

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// keepRemoved is how long it is remembered that an alias was removed. A node that was away for longer brings it back.
	keepRemoved = 30 * 24 * time.Hour
	// versionSlack is how far ahead of this node's clock another one's may be when it says how often it was written.
	versionSlack = 5 * time.Minute
)

// Alias is a name that the whole mesh has for a model, or the memory of one that was removed.
type Alias struct {
	Name    string `json:"name"`
	Target  string `json:"target"`         // the model; of a removed alias the last one
	Prev    string `json:"prev,omitempty"` // the model before; "" = none
	Version uint64 `json:"version"`        // one more with each change of the name; 0 = only proposed by a configuration
	Node    string `json:"node"`           // id of the node that wrote it
	At      int64  `json:"at"`             // when, milliseconds since 1970; only a removed one's age hangs on it
	Deleted bool   `json:"deleted,omitempty"`
}

// compare orders all that can be said of one name, so that every node keeps the same: what was written later, of two
// written at one time what the node with the greater id wrote. A node that forgot what it wrote may have written twice
// under one version; the rest decides then.
func (e Alias) compare(o Alias) int {
	return cmp.Or(
		cmp.Compare(e.Version, o.Version), strings.Compare(e.Node, o.Node), compareBool(e.Deleted, o.Deleted),
		strings.Compare(e.Target, o.Target), strings.Compare(e.Prev, o.Prev),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// join puts e into table unless something newer is there. The time is no part of what is agreed on: of two the earlier
// stays.
func join(table map[string]Alias, e Alias) {
	have, known := table[e.Name]
	c := e.compare(have)
	if !known || c > 0 || c == 0 && e.At < have.At {
		table[e.Name] = e
	}
}

// believed is what of e may go into a table: nothing that no node of ours can have written. A version counts the changes
// of one name and can be no more than the milliseconds since 1970. That bound rises faster than anybody writes, so a
// member that claims the highest version there can be is outdone by the next who sets the name.
func (e Alias) believed(now time.Time) (Alias, bool) {
	if !isAliasName(e.Name) || !isTarget(e.Target) || e.Prev != "" && !isTarget(e.Prev) || !isID(e.Node) ||
		e.Name == e.Target || e.Version > uint64(max(0, now.Add(versionSlack).UnixMilli())) {
		return Alias{}, false
	}
	e.At = max(0, min(e.At, now.UnixMilli()))
	return e, !e.expired(now)
}

func (e Alias) expired(now time.Time) bool {
	return e.Deleted && now.Sub(time.UnixMilli(e.At)) >= keepRemoved
}

// isAliasName allows what needs no care in an address, a page or a terminal.
func isAliasName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("._:/@+-", rune(c))) {
			return false
		}
	}
	return s != "" && len(s) <= maxText
}

// isTarget allows what a model can be called: it travels in a header.
func isTarget(s string) bool { return s != "" && isText(s) && strings.TrimSpace(s) == s }

// sorted lists a table by name.
func sorted(table map[string]Alias) []Alias {
	list := slices.Collect(maps.Values(table))
	slices.SortFunc(list, func(x, y Alias) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// digestOf stands for all that nodes agree on in a table. Parts go in with their lengths, so that no two tables have the
// same bytes.
func digestOf(table map[string]Alias) [32]byte {
	h := sha256.New()
	put(h, "viiwork aliases 1")
	for _, e := range sorted(table) {
		for _, part := range []string{e.Name, e.Target, e.Prev, e.Node} {
			put(h, part)
		}
		putCount(h, int(e.Version))
		putCount(h, compareBool(e.Deleted, false))
	}
	return [32]byte(h.Sum(nil))
}
