package config

import "reflect"

// Places remembers where the keys of a file stand that [Decode] read.
type Places struct{ src source }

// Decode reads a file of another kind as strictly as a configuration is read: into points to a struct whose fields have
// key tags. Every fault is told at once, in a [Faults].
func Decode(name string, data []byte, into any) (Places, error) {
	p := Places{source{file: name, positions: map[string]Position{}}}
	list := &faultList{}
	root, fault := document(name, data)
	if fault != nil {
		list.add(*fault)
		return p, list.err()
	}
	if root != nil {
		d := &decoder{src: &p.src, list: list}
		d.value(root, reflect.ValueOf(into).Elem(), place{})
	}
	return p, list.err()
}

// IsSet reports whether the file has a value for key.
func (p Places) IsSet(key string) bool {
	_, ok := p.src.positions[key]
	return ok
}

// Fault makes a fault at key's position, as [Config.Fault] does.
func (p Places) Fault(key, format string, args ...any) Fault {
	c := Config{src: p.src}
	return c.Fault(key, format, args...)
}
