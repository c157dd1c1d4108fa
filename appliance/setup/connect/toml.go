package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pair is a key and its value, as TOML writes it.
type pair struct{ key, value string }

// tomlTable is a table by its dotted name.
type tomlTable struct {
	name  []string
	pairs []pair
}

// tomlText is a TOML string: a JSON string is one.
func tomlText(s string) string {
	text, _ := json.Marshal(s) // a string always can be
	return string(text)
}

var errNoTOML = errors.New("this is not TOML: mend the file first")

// setTOML sets keys before the first table, and keys of one table. What else the file says stays, remarks included.
func setTOML(old []byte, top []pair, table tomlTable) ([]byte, error) {
	list, err := statements(string(old))
	if err != nil {
		return nil, err
	}
	if err := clash(list, table.name); err != nil {
		return nil, err
	}
	first := slices.IndexFunc(list, func(s statement) bool { return s.header })
	if first < 0 {
		first = len(list)
	}
	head := setPairs(list[:first:first], top)
	rest := list[first:]
	at := slices.IndexFunc(rest, func(s statement) bool { return s.header && slices.Equal(s.name, table.name) })
	if at < 0 {
		header := []statement{{text: "\n"}, {text: "[" + strings.Join(table.name, ".") + "]\n", header: true}}
		return join(head, rest, setPairs(header, table.pairs)), nil
	}
	end := at + 1
	for end < len(rest) && !rest[end].header {
		end++
	}
	body := setPairs(slices.Clone(rest[at:end]), table.pairs)
	return join(head, rest[:at], body, rest[end:]), nil
}

func join(parts ...[]statement) []byte {
	var out strings.Builder
	for _, part := range parts {
		for _, s := range part {
			if out.Len() > 0 && !strings.HasSuffix(out.String(), "\n") {
				out.WriteByte('\n') // the file's last line had no end
			}
			out.WriteString(s.text)
		}
	}
	return []byte(out.String())
}

// clash finds the table written in another of TOML's ways, into which a header would not fit.
func clash(list []statement, name []string) error {
	var within []string
	for _, s := range list {
		if s.header {
			if within = s.name; s.array && slices.Equal(s.name, name) {
				return fmt.Errorf("[[%s]] is a list there: change it by hand", strings.Join(name, "."))
			}
			continue
		}
		full := append(slices.Clone(within), s.name...)
		n := min(len(full), len(name))
		if len(s.name) > 0 && slices.Equal(full[:n], name[:n]) && len(within) < len(name) {
			return fmt.Errorf("%s is written without a header of its own there: change it by hand", strings.Join(name, "."))
		}
	}
	return nil
}

// setPairs sets keys within statements of one table, and puts new ones after the last that says something.
func setPairs(list []statement, pairs []pair) []statement {
	for _, p := range pairs {
		line := statement{text: p.key + " = " + p.value + "\n", name: []string{p.key}}
		if i := slices.IndexFunc(list, func(s statement) bool { return !s.header && len(s.name) == 1 && s.name[0] == p.key }); i >= 0 {
			if list[i].remark != "" {
				line.text = p.key + " = " + p.value + " " + list[i].remark + "\n"
			}
			list[i] = line
			continue
		}
		at := len(list)
		for at > 0 && !list[at-1].header && len(list[at-1].name) == 0 && strings.TrimSpace(list[at-1].text) == "" {
			at--
		}
		list = slices.Insert(list, at, line)
	}
	return list
}

// statement is one header, one key with its value over as many lines as that takes, or a line that says nothing.
type statement struct {
	text   string // with its line's end
	name   []string
	header bool
	array  bool   // [[name]]
	remark string // behind a value, from its # on
}

var (
	bareKey   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	quotedKey = regexp.MustCompile(`^("[^"\n]*"|'[^'\n]*')$`)
)

// statements takes a text apart.
func statements(text string) ([]statement, error) {
	var list []statement
	for n := 1; text != ""; {
		end, remark, err := statementEnd(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s := statement{text: text[:end], remark: strings.TrimSpace(remark)}
		if err := s.read(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, s)
		n += strings.Count(text[:end], "\n")
		text = text[end:]
	}
	return list, nil
}

// statementEnd finds where the line ends at which no string and no bracket is open.
func statementEnd(text string) (end int, remark string, err error) {
	depth := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n' && depth == 0:
			return i + 1, remark, nil
		case c == '#':
			line := strings.IndexByte(text[i:], '\n')
			if line < 0 {
				line = len(text) - i
			}
			if remark = ""; depth == 0 {
				remark = text[i : i+line]
			}
			i += line
			continue
		case c == '"' || c == '\'':
			n, err := stringEnd(text[i:])
			if err != nil {
				return 0, "", err
			}
			i += n
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth < 0 {
				return 0, "", errNoTOML
			}
		}
		i++
	}
	if depth > 0 {
		return 0, "", errNoTOML
	}
	return len(text), remark, nil
}

// stringEnd is the length of the string that text begins with, one of TOML's four kinds.
func stringEnd(text string) (int, error) {
	quote := text[:1]
	if strings.HasPrefix(text, strings.Repeat(quote, 3)) {
		quote = text[:3]
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote[0] == '"':
			i++
		case text[i] == '\n' && len(quote) == 1:
			return 0, errNoTOML
		case strings.HasPrefix(text[i:], quote):
			i += len(quote)
			for len(quote) == 3 && i < len(text) && text[i] == quote[0] { // quotes before the end belong to the text
				i++
			}
			return i, nil
		}
	}
	return 0, errNoTOML
}

// read finds what the statement names.
func (s *statement) read() error {
	line := strings.TrimSpace(s.text)
	if line == "" || line[0] == '#' {
		return nil
	}
	name := line
	if line[0] == '[' {
		s.header, s.array = true, strings.HasPrefix(line, "[[")
		name = strings.TrimSpace(strings.TrimSuffix(line, s.remark))
		name = strings.Trim(name, "[]")
	}
	var err error
	s.name, name, err = dotted(name)
	value, isValue := strings.CutPrefix(strings.TrimSpace(strings.TrimSuffix(name, s.remark)), "=")
	if err == nil && (s.header && name != "" || !s.header && (!isValue || strings.TrimSpace(value) == "")) {
		err = errNoTOML
	}
	return err
}

// dotted reads a key such as a."b.c" and returns its parts and what comes after it.
func dotted(text string) (parts []string, rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \t")
		if text == "" {
			return nil, "", errNoTOML
		}
		end := strings.IndexAny(text, ".= \t")
		if text[0] == '"' || text[0] == '\'' {
			if end, err = stringEnd(text); err != nil {
				return nil, "", err
			}
		}
		if end < 0 {
			end = len(text)
		}
		if !bareKey.MatchString(text[:end]) && !quotedKey.MatchString(text[:end]) {
			return nil, "", errNoTOML
		}
		parts = append(parts, strings.Trim(text[:end], `"'`))
		text = strings.TrimLeft(text[end:], " \t")
		if !strings.HasPrefix(text, ".") {
			return parts, text, nil
		}
		text = text[1:]
	}
}
