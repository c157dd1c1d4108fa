package config

import (
	"reflect"
	"slices"
)

// Changes compares two configurations for a reload. Models says whether the models differ, and with them their
// folder; restart names the other sections that differ, which take effect at the next start only. Access rules apply
// at once, and aliases are only ever proposed at the very first start: neither is named.
func Changes(old, new *Config) (models bool, restart []string) {
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	for _, f := range fieldsOf(a.Type()) {
		if same(a.Field(f.index), b.Field(f.index)) {
			continue
		}
		switch {
		case f.name == "models":
			models = true
		case !slices.Contains([]string{"models_dir", "access", "aliases"}, f.name):
			restart = append(restart, f.name)
		}
	}
	return models, restart
}

// same compares values; an empty list is as good as none.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return a.Len() == 0 && b.Len() == 0 || reflect.DeepEqual(a.Interface(), b.Interface())
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
