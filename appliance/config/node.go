package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Bounds of one file. Anchors make a small file large: what counts is every value visited, each time it is.
const (
	maxFile   = 1 << 20
	maxValues = 50_000
	maxDepth  = 32
)

// place is where the walk stands.
type place struct {
	key   string // dotted path
	field field
	depth int
}

func (p place) child(name string, f field) place {
	if p.key != "" {
		name = p.key + "." + name
	}
	return place{name, f, p.depth + 1}
}

func (p place) item(i int) place {
	return place{fmt.Sprintf("%s[%d]", p.key, i), p.field, p.depth + 1}
}

// pair is one key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// pairs reads a mapping: merged blocks first, as the written keys win over them; duplicates and keys that are not plain
// text are faults.
func (d *decoder) pairs(n *yaml.Node, at place) []pair {
	var merged, own []pair
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content) && d.visit(n, at); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, d.merge(value, at)...)
		case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
			d.fault(key, at.key, "a key must be one word: write it as text")
		case first[key.Value] > 0:
			d.fault(key, at.child(keyText(key.Value), field{}).key, "written twice, first in line %d: remove one", first[key.Value])
		default:
			first[key.Value] = key.Line
			own = append(own, pair{key, value})
		}
	}
	var all []pair
	for _, p := range merged {
		if first[p.key.Value] == 0 {
			first[p.key.Value] = p.key.Line
			all = append(all, p)
		}
	}
	return append(all, own...)
}

// merge reads what stands behind <<: a mapping, or a list of them of which the first wins.
func (d *decoder) merge(n *yaml.Node, at place) []pair {
	at.depth++
	n = follow(n)
	if !d.visit(n, at) {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.pairs(n, at)
	case yaml.SequenceNode:
		var all []pair
		for _, item := range n.Content {
			all = append(all, d.merge(item, at)...)
		}
		return all
	}
	d.fault(n, at.key, "<< merges blocks of keys: name an anchor of one, such as *base")
	return nil
}

// follow leads from an alias to what it stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// isNull reports whether a key has no value.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// kindOf names what is there.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a block of keys"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "nothing"
	}
	return "text"
}

// isQuoted reports whether the writer said explicitly that this is text.
func isQuoted(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}
