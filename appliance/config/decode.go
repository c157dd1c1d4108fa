package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder walks a file's nodes and the configuration's fields side by side.
type decoder struct {
	src    *source
	list   *faultList
	keys   []string // of the whole file, to suggest; none = only those beside the unknown one
	values int      // visited so far
	over   bool     // a bound was passed and reported
}

func (d *decoder) fault(n *yaml.Node, key, format string, args ...any) {
	d.list.add(Fault{File: d.src.file, Line: n.Line, Column: n.Column, Key: key, Message: fmt.Sprintf(format, args...)})
}

// visit counts a value and reports whether the walk may go on.
func (d *decoder) visit(n *yaml.Node, at place) bool {
	d.values++
	if d.over || d.list.full() {
		return false
	}
	switch {
	case d.values > maxValues:
		d.fault(n, at.key, "the file grows beyond %d values here: cut it down, and see whether an anchor repeats itself", maxValues)
	case at.depth > maxDepth:
		d.fault(n, at.key, "nested deeper than %d levels: no key of viiwork is", maxDepth)
	default:
		return true
	}
	d.over = true
	return false
}

// record notes where the value of a key stands: at its first letter, a block of lines at its key.
func (d *decoder) record(key string, name, value *yaml.Node) {
	n := value
	if value.Kind != yaml.ScalarNode && value.Kind != yaml.AliasNode && value.Style&yaml.FlowStyle == 0 {
		n = name
	}
	d.src.positions[key] = Position{d.src.file, n.Line, n.Column}
}

// value reads n into v. A key without a value keeps its default.
func (d *decoder) value(n *yaml.Node, v reflect.Value, at place) {
	n = follow(n)
	if !d.visit(n, at) || isNull(n) {
		return
	}
	switch {
	case v.Kind() == reflect.Struct:
		d.section(n, v, at)
	case v.Kind() == reflect.Map:
		d.table(n, v, at)
	case v.Kind() == reflect.Slice:
		d.items(n, v, at)
	case v.Kind() == reflect.Interface:
		v.Set(reflect.ValueOf(d.free(n, at)))
	default:
		d.scalar(n, v, at)
	}
}

func (d *decoder) section(n *yaml.Node, v reflect.Value, at place) {
	if !d.is(n, yaml.MappingNode, v, at) {
		return
	}
	fields := map[string]field{}
	for _, f := range fieldsOf(v.Type()) {
		fields[f.name] = f
	}
	for _, p := range d.pairs(n, at) {
		if d.list.full() {
			return
		}
		f, ok := fields[p.key.Value]
		if !ok {
			key := at.child(keyText(p.key.Value), field{}).key
			d.fault(p.key, key, "%s", d.unknownKey(p.key.Value, at.key, names(v.Type())))
			continue
		}
		to := at.child(f.name, f)
		if !isNull(follow(p.value)) {
			d.record(to.key, p.key, p.value)
		}
		d.value(p.value, v.Field(f.index), to)
	}
}

// unknownKey suggests a neighbour, or the section a key of that name belongs to.
func (d *decoder) unknownKey(name, section string, siblings []string) string {
	if near := nearest(name, siblings); near != "" {
		return fmt.Sprintf("unknown key: did you mean %s?", near)
	}
	for _, key := range d.keys {
		if strings.HasSuffix(key, "."+name) && key != section+"."+name {
			return fmt.Sprintf("unknown key here: did you mean %s?", key)
		}
	}
	return fmt.Sprintf("unknown key: remove it, the keys here are %s", strings.Join(siblings, ", "))
}

func (d *decoder) table(n *yaml.Node, v reflect.Value, at place) {
	if !d.is(n, yaml.MappingNode, v, at) {
		return
	}
	table := map[string]string{}
	for _, p := range d.pairs(n, at) {
		to := at.child(p.key.Value, field{})
		d.record(to.key, p.key, p.value)
		value := follow(p.value)
		if value.Kind != yaml.ScalarNode || isNull(value) {
			d.fault(p.value, at.child(keyText(p.key.Value), field{}).key, "want text, not %s: write \"\" for an empty one", kindOf(value))
			continue
		}
		table[p.key.Value] = value.Value
	}
	v.Set(reflect.ValueOf(table))
}

func (d *decoder) items(n *yaml.Node, v reflect.Value, at place) {
	if !d.is(n, yaml.SequenceNode, v, at) {
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		to := at.item(i)
		d.src.positions[to.key] = Position{d.src.file, item.Line, item.Column}
		if isNull(follow(item)) {
			d.fault(item, to.key, "empty entry: fill it or remove it")
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if isModels(v) {
			element.Set(reflect.ValueOf(DefaultModel()))
		}
		d.value(item, element, to)
		list = reflect.Append(list, element)
		if d.over || d.list.full() {
			break
		}
	}
	v.Set(list)
}

func (d *decoder) is(n *yaml.Node, kind yaml.Kind, v reflect.Value, at place) bool {
	if n.Kind == kind {
		return true
	}
	hint := ""
	if v.Kind() == reflect.Slice && n.Kind == yaml.ScalarNode && !at.field.secret {
		hint = fmt.Sprintf(": write [%s]", strings.Trim(quote(n.Value), `"`))
	}
	d.fault(n, at.key, "want %s, not %s%s", wanted(v.Type(), at.field), kindOf(n), hint)
	return false
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, at place) {
	want := wanted(v.Type(), at.field)
	text := v.Kind() == reflect.String || v.Type() == durationType || at.field.size
	switch {
	case n.Kind != yaml.ScalarNode:
		d.fault(n, at.key, "want %s, not %s", want, kindOf(n))
	case !text && isQuoted(n):
		d.fault(n, at.key, "want %s, not text: take the quotes away", want)
	case !strings.HasPrefix(n.Tag, "!!") || n.Tag == "!!binary":
		d.fault(n, at.key, "want %s: take the tag %s away", want, keyText(n.Tag))
	default:
		if err := setScalar(v, at.field, n.Value); err != nil {
			d.fault(n, at.key, "want %s: %s", want, wrong(at.field, n.Value, err))
		}
	}
}

// free reads values of any shape, for rules that another part understands.
func (d *decoder) free(n *yaml.Node, at place) any {
	n = follow(n)
	if !d.visit(n, at) {
		return ""
	}
	switch n.Kind {
	case yaml.MappingNode:
		block := map[string]any{}
		for _, p := range d.pairs(n, at) {
			block[p.key.Value] = d.free(p.value, at.child(keyText(p.key.Value), field{}))
		}
		return block
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			list = append(list, d.free(item, at.item(i)))
		}
		return list
	}
	var value any
	switch n.Tag {
	case "!!int", "!!float", "!!bool":
		if n.Decode(&value) == nil && value != nil {
			return value
		}
	}
	return n.Value
}
