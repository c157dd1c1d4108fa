package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stated are the keys that are written whatever their value: who reads the file looks for them.
var stated = []string{"node.name", "node.state_dir", "mesh.network", "models_dir",
	"name", "path", "gpus", "context", "parallel", "llamacpp.runner"}

// remarks are for who opens the file with nothing else at hand.
var remarks = map[string]string{
	"node.name":                "unique in the mesh",
	"node.state_dir":           "sockets, slot files, records of running engines",
	"api.port":                 "where requests come in",
	"api.host":                 "the address to listen on, \"\" = all",
	"api.local":                "for programs on this machine",
	"mesh.network":             "tailnet | lan",
	"mesh.open":                "no secret: whoever reaches this node may join",
	"mesh.seeds":               "where nodes cannot find each other",
	"mesh.tailnet.hostname":    "this node as a device of the tailnet",
	"models_dir":               "relative paths below start here",
	"gpus_per_backend":         "cards of one engine process",
	"context":                  "tokens per slot",
	"parallel":                 "slots per backend",
	"llamacpp.prompt_cache":    "RAM for conversations without a slot",
	"startup_timeout":          "loading longer than this is given up",
	"args":                     "appended last",
	"gpu.power_limit_watts":    "of every card",
	"routing.warm_wait":        "a conversation waits this long for its own backend",
	"kv_share.mode":            "off | pull | replicate",
	"mesh.secret_env":          "the variable that holds the mesh's secret",
	"mesh.tailnet.control_url": "\"\" = Tailscale's own",
}

// Text writes the configuration as its owner would have: what differs from the defaults, with what a reader looks for
// first, and a word on it. Secrets are left out: they belong in the environment. Parse reads the same values from it.
func (c *Config) Text(head string) []byte {
	out := new(bytes.Buffer)
	for line := range strings.Lines(head) {
		fmt.Fprintf(out, "# %s\n", strings.TrimRight(line, "\n"))
	}
	plain := Default()
	w := writer{c: c, out: out}
	w.section("", "", reflect.ValueOf(c).Elem(), reflect.ValueOf(&plain).Elem())
	return w.out.Bytes()
}

// Say makes Text write key (api.local, models[0].threads) although its value is that of a file that does not say.
func (c *Config) Say(key string) {
	if c.src.positions == nil {
		c.src.positions = map[string]Position{}
	}
	c.src.positions[key] = Position{File: c.src.file, Line: 1, Column: 1}
}

// implied reports whether the value is what derive makes of other keys.
func (c *Config) implied(key string, entry int) bool {
	switch key {
	case "node.name":
		return c.Node.Name == ""
	case "mesh.tailnet.hostname":
		return c.Mesh.Tailnet.Hostname == "viiwork-"+c.Node.Name
	case "api.local":
		return c.API.Local == fmt.Sprintf("127.0.0.1:%d", c.API.Port)
	case "context":
		return c.Models[entry].Context == 0
	case "llamacpp.image":
		image := c.Models[entry].Llamacpp.Image
		return image == "cpu" && len(c.Models[entry].GPUs) == 0 || image == "cuda" && len(c.Models[entry].GPUs) > 0
	}
	return false
}

// writer lays out one file.
type writer struct {
	c     *Config
	entry int    // the entry of models it is in
	set   string // what stands before its keys where the configuration remembers what was written
	out   *bytes.Buffer
}

// section writes the keys of v that differ from plain, sections after the line that names them.
func (w writer) section(indent, prefix string, v, plain reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		value, key := v.Field(f.index), prefix+f.name
		switch {
		case isModels(value):
			w.models(value)
		case value.Kind() == reflect.Struct:
			inner := w
			inner.out = new(bytes.Buffer)
			inner.section(indent+"  ", key+".", value, plain.Field(f.index))
			if inner.out.Len() > 0 {
				w.gap(indent)
				fmt.Fprintf(w.out, "%s%s:\n%s", indent, f.name, inner.out)
			}
		case !f.secret && w.says(key, value, plain.Field(f.index)):
			if prefix == "" {
				w.gap(indent)
			}
			w.line(indent, key, f, value)
		}
	}
}

// says decides whether a key is worth its line.
func (w writer) says(key string, value, plain reflect.Value) bool {
	if w.c.IsSet(w.set + key) {
		return true
	}
	if w.c.implied(key, w.entry) || (key == "gpus" || key == "path") && value.Len() == 0 {
		return false
	}
	return slices.Contains(stated, key) || !same(value, plain)
}

// gap sets the sections of a file apart.
func (w writer) gap(indent string) {
	if indent == "" && w.out.Len() > 0 {
		w.out.WriteByte('\n')
	}
}

func (w writer) models(list reflect.Value) {
	w.gap("")
	if list.Len() == 0 {
		w.out.WriteString("models: []    # an entry that runs nothing itself\n")
		return
	}
	w.out.WriteString("models:\n")
	for i := range list.Len() {
		plain := DefaultModel()
		entry := writer{c: w.c, entry: i, set: item("models", i) + ".", out: new(bytes.Buffer)}
		entry.section("    ", "", w.c.filled(list.Index(i)), reflect.ValueOf(plain))
		text := entry.out.String()
		text = "  - " + strings.TrimPrefix(strings.ReplaceAll(text, "\n\n", "\n"), "    ")
		w.out.WriteString(text)
	}
}

// filled is an entry with the defaults where it says nothing, as one built in code, and its path as short as it can be.
func (c *Config) filled(entry reflect.Value) reflect.Value {
	m := reflect.New(modelType).Elem()
	m.Set(entry)
	fillEmpty(m, reflect.ValueOf(DefaultModel()))
	path := m.FieldByName("Path")
	if short, err := filepath.Rel(c.ModelsDir, path.String()); err == nil && filepath.IsLocal(short) {
		path.SetString(short)
	}
	return m
}

func fillEmpty(v, plain reflect.Value) {
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct {
			fillEmpty(v.Field(i), plain.Field(i))
		} else if v.Field(i).IsZero() {
			v.Field(i).Set(plain.Field(i))
		}
	}
}

const remarkColumn = 34

func (w writer) line(indent, key string, f field, value reflect.Value) {
	line := fmt.Sprintf("%s%s: %s", indent, f.name, yamlValue(value, f))
	if remark := remarks[key]; remark != "" {
		line = fmt.Sprintf("%-*s # %s", remarkColumn, line, remark)
	}
	fmt.Fprintln(w.out, line)
}

// yamlValue writes a value as this package reads it.
func yamlValue(v reflect.Value, f field) string {
	switch {
	case v.Type() == durationType:
		return formatDuration(time.Duration(v.Int()))
	case f.size:
		return formatSize(v.Int())
	case v.Kind() == reflect.String:
		return yamlText(v.String())
	case v.Kind() == reflect.Map:
		table := v.Interface().(map[string]string)
		var items []string
		for _, name := range slices.Sorted(maps.Keys(table)) {
			items = append(items, yamlText(name)+": "+yamlText(table[name]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Interface:
		text, _ := json.Marshal(v.Interface()) // text, numbers, truths, lists and tables only
		return string(text)
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = yamlValue(v.Index(i), field{})
		}
		return showList(items)
	}
	return fmt.Sprint(v.Interface())
}

// plainWord is what YAML reads as text without quotes wherever it stands: it begins with a letter or a slash, and is none
// of the words that mean something else.
var (
	plainWord = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./+@-]*$`)
	otherWord = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null)$`)
)

func yamlText(s string) string {
	if plainWord.MatchString(s) && !otherWord.MatchString(s) {
		return s
	}
	var text bytes.Buffer
	quoted := json.NewEncoder(&text) // a JSON string is a YAML string
	quoted.SetEscapeHTML(false)
	_ = quoted.Encode(s)
	return strings.TrimSpace(text.String())
}
