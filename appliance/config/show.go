package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one key as it stands after defaults, file and environment.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // as it would be written in the file; secrets masked
	Origin string `json:"origin"` // default, plan (worked out for this machine), file:line, env NAME
}

const masked = "********"

// Show lists every key in the order of the schema. What is or looks like a secret is masked.
func (c *Config) Show() []Setting {
	var list []Setting
	leaves(reflect.ValueOf(c).Elem(), "", func(l leaf) {
		list = append(list, Setting{Key: l.key, Value: l.show(), Origin: c.origin(l.key)})
	})
	return list
}

func (c *Config) origin(key string) string {
	p, ok := c.src.positions[key]
	switch {
	case c.src.planned[key]:
		return "plan"
	case !ok:
		return "default"
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line)
}

func (l leaf) show() string {
	v := l.value
	switch {
	case l.field.secret && !v.IsZero():
		return masked
	case l.field.name == "args":
		return showList(maskArgs(v.Interface().([]string)))
	case v.Kind() == reflect.Map:
		return showTable(v.Interface().(map[string]string))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Interface:
		data, err := json.Marshal(maskRules(v.Interface()))
		if err != nil || v.Len() == 0 {
			return "[]"
		}
		return string(data)
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = showItem(showOne(v.Index(i), l.field))
		}
		return showList(items)
	}
	return showOne(v, l.field)
}

func showOne(v reflect.Value, f field) string {
	switch {
	case v.Type() == durationType:
		return formatDuration(time.Duration(v.Int()))
	case f.size:
		return formatSize(v.Int())
	case v.Kind() == reflect.String:
		return showText(maskText(v.String()))
	}
	return fmt.Sprint(v.Interface())
}

// showText quotes what would not stand alone on a line.
func showText(s string) string {
	if s == "" || strings.TrimSpace(s) != s || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}

// showItem quotes what would not stand alone within brackets.
func showItem(s string) string {
	if strings.ContainsAny(s, ",[]{}#") && s[0] != '"' {
		return strconv.Quote(s)
	}
	return s
}

func showList(items []string) string { return "[" + strings.Join(items, ", ") + "]" }

func showTable(table map[string]string) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		value := showItem(showText(maskText(table[name])))
		if secretName.MatchString(name) && table[name] != "" {
			value = masked
		}
		items = append(items, showItem(showText(name))+": "+value)
	}
	return "{" + strings.Join(items, ", ") + "}"
}

var (
	secretName  = regexp.MustCompile(`(?i)key|token|secret|passw|credential|auth|cookie`)
	secretValue = regexp.MustCompile(`\b(tskey-|sk-|hf_|ghp_|github_pat_|glpat-|AKIA|xox[abp]-)[A-Za-z0-9_-]{4,}`)
	userInfo    = regexp.MustCompile(`://[^/?#\s]*@`)
)

// maskText hides well-known kinds of keys, and users and passwords in addresses.
func maskText(s string) string {
	return userInfo.ReplaceAllString(secretValue.ReplaceAllString(s, masked), "://"+masked+"@")
}

// maskRules hides secrets in values of any shape.
func maskRules(value any) any {
	switch v := value.(type) {
	case string:
		return maskText(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = maskRules(v[i])
		}
		return list
	case map[string]any:
		block := map[string]any{}
		for name, inner := range v {
			if block[name] = maskRules(inner); secretName.MatchString(name) {
				block[name] = masked
			}
		}
		return block
	}
	return value
}

// maskArgs hides what follows a flag such as --api-key, as the next argument or after '='.
func maskArgs(args []string) []string {
	shown := make([]string, len(args))
	hideNext := false
	for i, a := range args {
		flag, _, joined := strings.Cut(a, "=")
		isFlag := strings.HasPrefix(a, "-")
		switch {
		case hideNext && !isFlag:
			shown[i] = masked
		case isFlag && joined && secretName.MatchString(flag):
			shown[i] = flag + "=" + masked
		default:
			shown[i] = showItem(showText(maskText(a)))
		}
		hideNext = isFlag && !joined && secretName.MatchString(flag)
	}
	return shown
}
