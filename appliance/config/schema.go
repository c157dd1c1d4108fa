package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// field is one tagged struct field.
type field struct {
	name   string
	index  int
	size   bool // bytes, written as 8GiB
	secret bool // never shown
}

// leaf is one value of the configuration: a scalar, a list of scalars, or a map.
type leaf struct {
	key   string
	field field
	value reflect.Value
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	modelType    = reflect.TypeFor[Model]()
)

// fieldsOf lists the keys of a section in the order of its struct.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("key")
		if tag == "" || tag == "-" {
			continue
		}
		name, flag, _ := strings.Cut(tag, ",")
		fields = append(fields, field{name: name, index: i, size: flag == "size", secret: flag == "secret"})
	}
	return fields
}

// leaves visits every value under v in order. An empty list of models is a leaf of its own.
func leaves(v reflect.Value, prefix string, visit func(leaf)) {
	for _, f := range fieldsOf(v.Type()) {
		fv, key := v.Field(f.index), prefix+f.name
		switch {
		case fv.Kind() == reflect.Struct:
			leaves(fv, key+".", visit)
		case isModels(fv) && fv.Len() > 0:
			for i := range fv.Len() {
				leaves(fv.Index(i), fmt.Sprintf("%s[%d].", key, i), visit)
			}
		default:
			visit(leaf{key, f, fv})
		}
	}
}

func isModels(v reflect.Value) bool { return v.Kind() == reflect.Slice && v.Type().Elem() == modelType }

// isScalar reports whether one word can hold v.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

// Keys lists every key a file may have, list elements as models[].name.
func Keys() []string {
	c := Config{Models: make([]Model, 1)}
	var keys []string
	leaves(reflect.ValueOf(&c).Elem(), "", func(l leaf) {
		keys = append(keys, strings.ReplaceAll(l.key, "[0]", "[]"))
	})
	return keys
}
