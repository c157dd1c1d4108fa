package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxDepth bounds how deep a client's file may be nested.
const maxDepth = 100

// setJSON puts value at path into a JSON text, which may have comments and commas too many, as such files do. Everything
// else in it stays, byte for byte. Objects on the way that are missing are made.
func setJSON(text []byte, path []string, value any) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{\n}\n")
	}
	j := &jsonText{text: text}
	if err := j.space(); err != nil {
		return nil, err
	}
	whole := *j
	if err := errors.Join(whole.value(0), whole.space()); err != nil || whole.at < len(text) {
		return nil, whole.fault()
	}
	return j.set(path, value, 1)
}

// jsonText is a place in a text.
type jsonText struct {
	text []byte
	at   int
}

var errNoJSON = errors.New("this is not JSON: mend the file first")

// fault names the line.
func (j *jsonText) fault() error {
	line := 1 + bytes.Count(j.text[:min(j.at, len(j.text))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, errNoJSON)
}

// space passes blanks and comments.
func (j *jsonText) space() error {
	for j.at < len(j.text) {
		rest := j.text[j.at:]
		end := -1
		switch {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			end = 1
		case bytes.HasPrefix(rest, []byte("//")):
			if end = bytes.IndexByte(rest, '\n'); end < 0 {
				end = len(rest)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			if end = bytes.Index(rest, []byte("*/")); end < 0 {
				return j.fault()
			}
			end += 2
		default:
			return nil
		}
		j.at += end
	}
	return nil
}

func (j *jsonText) peek() byte {
	if j.at < len(j.text) {
		return j.text[j.at]
	}
	return 0
}

// word passes a string and returns what it says.
func (j *jsonText) word() (string, error) {
	start := j.at
	if j.peek() != '"' {
		return "", j.fault()
	}
	for j.at++; j.at < len(j.text); j.at++ {
		switch j.text[j.at] {
		case '\\':
			j.at++
		case '"':
			j.at++
			var s string
			if err := json.Unmarshal(j.text[start:j.at], &s); err != nil {
				return "", j.fault()
			}
			return s, nil
		}
	}
	return "", j.fault()
}

// value passes any value.
func (j *jsonText) value(depth int) error {
	switch c := j.peek(); {
	case depth > maxDepth:
		return j.fault()
	case c == '"':
		_, err := j.word()
		return err
	case c == '{':
		return j.members(depth, func(string) error { return nil })
	case c == '[':
		return j.items(depth)
	}
	start := j.at
	for j.at < len(j.text) && !strings.ContainsRune(",]} \t\r\n/", rune(j.text[j.at])) {
		j.at++
	}
	if !json.Valid(j.text[start:j.at]) {
		return j.fault()
	}
	return nil
}

func (j *jsonText) items(depth int) error {
	for j.at++; ; {
		if err := j.space(); err != nil {
			return err
		}
		if j.peek() == ']' {
			j.at++
			return nil
		}
		if err := j.value(depth + 1); err != nil {
			return err
		}
		if err := j.comma(']'); err != nil {
			return err
		}
	}
}

// comma passes what stands between two values, and leaves the end of the list to its caller.
func (j *jsonText) comma(end byte) error {
	if err := j.space(); err != nil {
		return err
	}
	switch j.peek() {
	case ',':
		j.at++
	case end:
	default:
		return j.fault()
	}
	return nil
}

// members passes an object. Before each value it tells see the key; where see moves on, the value is passed already.
func (j *jsonText) members(depth int, see func(key string) error) error {
	for j.at++; ; {
		if err := j.space(); err != nil {
			return err
		}
		if j.peek() == '}' {
			j.at++
			return nil
		}
		key, err := j.word()
		if err != nil {
			return err
		}
		if err := j.space(); err != nil {
			return err
		}
		if j.peek() != ':' {
			return j.fault()
		}
		j.at++
		if err := j.space(); err != nil {
			return err
		}
		if err := see(key); err != nil {
			return err
		}
		if err := j.value(depth + 1); err != nil {
			return err
		}
		if err := j.comma('}'); err != nil {
			return err
		}
	}
}

// set works on the object at j, which is the depth'th from outside.
func (j *jsonText) set(path []string, value any, depth int) ([]byte, error) {
	if j.peek() != '{' {
		return nil, fmt.Errorf("%s is to be in an object, and there is something else: change it by hand", path[0])
	}
	found, last := -1, -1 // where the value of our key begins, and where the last value ends
	open := j.at
	walk := *j
	err := walk.members(depth, func(key string) error {
		if key == path[0] {
			found = walk.at // of two with one key the later counts
		}
		ahead := walk
		err := ahead.value(depth + 1)
		last = ahead.at
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case found < 0:
		return j.insert(path, value, depth, place{open, last, walk.at - 1})
	}
	j.at = found
	if len(path) > 1 {
		return j.set(path[1:], value, depth+1)
	}
	end := *j
	if err := end.value(depth + 1); err != nil {
		return nil, err
	}
	return j.splice(found, end.at, j.written(value, depth)), nil
}

// place is an object: its brace, the end of its last value (-1: it has none), and its closing brace.
type place struct{ open, last, closing int }

// insert puts a new member after the last one.
func (j *jsonText) insert(path []string, value any, depth int, p place) ([]byte, error) {
	for i := len(path) - 1; i > 0; i-- {
		value = map[string]any{path[i]: value}
	}
	name, err := json.Marshal(path[0])
	if err != nil {
		return nil, err
	}
	unit := j.unit()
	member := "\n" + strings.Repeat(unit, depth) + string(name) + ": " + j.written(value, depth)
	if p.last < 0 {
		return j.splice(p.open+1, p.closing, string(bytes.TrimRight(j.text[p.open+1:p.closing], " \t\r\n"))+member+"\n"+strings.Repeat(unit, depth-1)), nil
	}
	after := jsonText{text: j.text, at: p.last}
	if err := after.space(); err != nil {
		return nil, err
	}
	if after.peek() == ',' { // one too many, which is ours now
		return j.splice(after.at+1, after.at+1, member), nil
	}
	if !bytes.Contains(j.text[p.last:p.closing], []byte("\n")) { // all on one line
		member += "\n" + strings.Repeat(unit, depth-1)
		return j.splice(p.last, p.closing, ","+string(bytes.TrimRight(j.text[p.last:p.closing], " \t"))+member), nil
	}
	// A remark behind the last value stays behind it.
	line := p.last + bytes.IndexByte(j.text[p.last:p.closing], '\n')
	if bytes.Contains(j.text[p.last:line], []byte("/*")) {
		line = p.last
	}
	return j.splice(p.last, line, ","+string(j.text[p.last:line])+member), nil
}

func (j *jsonText) splice(from, to int, with string) []byte {
	return bytes.Join([][]byte{j.text[:from], []byte(with), j.text[to:]}, nil)
}

// written is a value as it stands in an object at depth.
func (j *jsonText) written(value any, depth int) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent(strings.Repeat(j.unit(), depth), j.unit())
	if e.Encode(value) != nil { // texts, numbers and tables of them always can be
		return "null"
	}
	return strings.TrimSpace(out.String())
}

// unit is what the file is indented with.
func (j *jsonText) unit() string {
	for line := range strings.Lines(string(j.text)) {
		rest := strings.TrimLeft(line, " \t")
		if indent := line[:len(line)-len(rest)]; indent != "" && strings.HasPrefix(rest, `"`) {
			return indent
		}
	}
	return "  "
}
