package gateway

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// assembler puts the events of one stream together into the document that the same request without stream would have
// been answered with.
type assembler interface {
	add(name string, data []byte) error
	result() ([]byte, error)
}

func newAssembler(k kind, tokens bool) assembler {
	switch k {
	case kindMessages:
		return &messageAssembler{}
	case kindResponses:
		return &responseAssembler{}
	case kindInfill:
		return &infillAssembler{tokens: tokens}
	}
	return &chunkAssembler{chat: k == kindChat, top: object{}, choices: map[int]*choice{}}
}

var errNoAnswer = errors.New("the stream held no answer")

// object is a JSON object whose members are not looked into.
type object map[string]json.RawMessage

// put stores a value as JSON.
func (o object) put(key string, v any) error {
	b, err := json.Marshal(v)
	o[key] = b
	return err
}

// text reads a string member; null and absent are not there.
func (o object) text(key string) (string, bool) {
	var s *string
	if json.Unmarshal(o[key], &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// has tells whether a member is there and not null.
func (o object) has(key string) bool { return len(o[key]) > 0 && string(o[key]) != "null" }

// parse reads an object; the members are copies, since events live in a reused buffer.
func parse(data []byte) (object, error) {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	if o == nil {
		o = object{}
	}
	return o, nil
}

// texts gathers strings that come in pieces, by name.
type texts map[string]*strings.Builder

func (t texts) add(name, piece string) {
	if t[name] == nil {
		t[name] = &strings.Builder{}
	}
	t[name].WriteString(piece)
}

// arrays gathers arrays that come in pieces, by name.
type arrays map[string][]json.RawMessage

// addAll appends the members of o that are arrays.
func (a arrays) addAll(o object) {
	for name, raw := range o {
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) == nil && items != nil {
			a[name] = append(a[name], items...)
		}
	}
}

// responseAssembler takes the response out of the event that completes it.
type responseAssembler struct{ response object }

func (a *responseAssembler) add(name string, data []byte) error {
	switch name {
	case "response.completed", "response.incomplete", "response.failed":
	default:
		return nil
	}
	ev, err := parse(data)
	if err != nil {
		return err
	}
	if a.response, err = parse(ev["response"]); err != nil {
		return err
	}
	if name == "response.completed" && !a.response.has("completed_at") && a.response.has("created_at") {
		a.response["completed_at"] = a.response["created_at"] // engines give it only without stream
	}
	return nil
}

func (a *responseAssembler) result() ([]byte, error) {
	if a.response == nil {
		return nil, errNoAnswer
	}
	return json.Marshal(a.response)
}

// infillAssembler puts the text into the last event, which has all else.
type infillAssembler struct {
	tokens bool // the client asked for the tokens themselves
	last   object
	text   strings.Builder
	lists  arrays
}

func (a *infillAssembler) add(_ string, data []byte) error {
	o, err := parse(data)
	if err != nil {
		return err
	}
	if s, ok := o.text("content"); ok {
		a.text.WriteString(s)
	}
	if a.lists == nil {
		a.lists = arrays{}
	}
	a.lists.addAll(object{"completion_probabilities": o["completion_probabilities"]})
	if a.tokens {
		a.lists.addAll(object{"tokens": o["tokens"]})
	}
	a.last = o
	return nil
}

func (a *infillAssembler) result() ([]byte, error) {
	if a.last == nil {
		return nil, errNoAnswer
	}
	if err := a.last.put("content", a.text.String()); err != nil {
		return nil, err
	}
	for name, items := range a.lists {
		if err := a.last.put(name, items); err != nil {
			return nil, err
		}
	}
	return json.Marshal(a.last)
}

// sortedKeys lists the indices of a map in order.
func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// maxParts bounds the choices, tool calls and content blocks of one answer.
const maxParts = 4096

var errTooManyParts = errors.New("the answer has too many parts")
