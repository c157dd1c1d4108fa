package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "VIIWORK_"

var modelVariable = regexp.MustCompile(`^VIIWORK_MODELS_[0-9]+_`)

// newEnviron makes a table of NAME=value entries; the last one of a name wins, as it does for a process.
func newEnviron(entries []string) map[string]string {
	env := map[string]string{}
	for _, e := range entries {
		if name, value, ok := strings.Cut(e, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

// envName is the variable of a key: models[0].path is VIIWORK_MODELS_0_PATH.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "[", "_", "]", "").Replace(key))
}

// hasEnv reports whether one line of text can hold the value: a scalar or a list of scalars.
func (l leaf) hasEnv() bool {
	t := l.value.Type()
	return isScalar(t) || t.Kind() == reflect.Slice && isScalar(t.Elem())
}

// overlay lays VIIWORK_* over the file. A variable that names no key is a warning, not a fault: the environment is
// shared with other programs, and with later versions of this one.
func (c *Config) overlay(env map[string]string, list *faultList) {
	var known []string
	leaves(reflect.ValueOf(c).Elem(), "", func(l leaf) {
		if !l.hasEnv() {
			return
		}
		name := envName(l.key)
		known = append(known, name)
		text, ok := env[name]
		if !ok {
			return
		}
		c.src.positions[l.key] = Position{File: "env " + name}
		if err := l.set(text); err != nil {
			list.add(Fault{File: "env " + name, Key: l.key, Message: err.Error()})
		}
	})
	c.warnUnknown(env, known)
}

func (l leaf) set(text string) error {
	if l.value.Kind() != reflect.Slice {
		return l.setOne(l.value, strings.TrimSpace(text))
	}
	items := reflect.MakeSlice(l.value.Type(), 0, 0)
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		v := reflect.New(l.value.Type().Elem()).Elem()
		if err := l.setOne(v, item); err != nil {
			return err
		}
		items = reflect.Append(items, v)
	}
	l.value.Set(items)
	return nil
}

func (l leaf) setOne(v reflect.Value, text string) error {
	if err := setScalar(v, l.field, text); err != nil {
		return fmt.Errorf("want %s: %s", wanted(v.Type(), l.field), wrong(l.field, text, err))
	}
	return nil
}

func (c *Config) warnUnknown(env map[string]string, known []string) {
	ours := append(c.SecretVariables(), "VIIWORK_CONFIG", "VIIWORK_ENGINE", "VIIWORK_DEMO_MODEL")
	var unknown []string
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, "VIIWORK_TEST_") &&
			!slices.Contains(known, name) && !slices.Contains(ours, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown[:min(len(unknown), maxFaults)] {
		why := "no key has that name"
		if near := nearest(name, known); modelVariable.MatchString(name) && len(c.Models) == 0 {
			why = "the file has no models for it"
		} else if near != "" {
			why = "did you mean " + near + "?"
		}
		c.warn("the variable %s sets nothing: %s", keyText(name), why)
	}
}

// SecretVariables names the variables that may hold the mesh secret or the path to it, so that they can be kept from
// engines.
func (c *Config) SecretVariables() []string {
	var list []string
	for _, name := range []string{c.Mesh.SecretEnv, c.Mesh.SecretPrevEnv} {
		if name != "" {
			list = append(list, name, name+fileSuffix)
		}
	}
	return list
}
