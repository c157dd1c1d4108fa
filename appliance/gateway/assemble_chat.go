package gateway

import (
	"encoding/json"
	"strings"
)

// chunkAssembler puts chat.completion.chunk and text_completion events together.
type chunkAssembler struct {
	chat    bool
	top     object // all members of the document but the choices
	choices map[int]*choice
}

// choice is one of the answers to a prompt.
type choice struct {
	last     object // members of which the last value counts: finish_reason and what we do not know
	logprobs arrays
	text     strings.Builder // completions
	message  message         // chat
}

// message is a chat message that comes in deltas.
type message struct {
	last  object // role and what we do not know
	texts texts
	calls map[int]*toolCall
}

type toolCall struct {
	last  object // id, type
	fn    object // what we do not know of the function
	texts texts  // name, arguments
}

func (a *chunkAssembler) add(_ string, data []byte) error {
	chunk, err := parse(data)
	if err != nil {
		return err
	}
	var list []object
	if raw, ok := chunk["choices"]; ok {
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
	}
	first := -1
	for i, c := range list {
		var n int
		if raw, ok := c["index"]; ok {
			if err := json.Unmarshal(raw, &n); err != nil {
				return err
			}
		}
		if i == 0 {
			first = n
		}
		if err := a.choice(n, c); err != nil {
			return err
		}
	}
	a.rest(chunk, first)
	return nil
}

// rest keeps the members beside the choices. Each choice brings a usage and timings of its own; those of the first one
// stand for all, as in an answer that was not streamed.
func (a *chunkAssembler) rest(chunk object, first int) {
	settled := a.top.has("usage") && first != 0
	for name, raw := range chunk {
		switch {
		case name == "choices", name == "prompt_progress":
		case (name == "usage" || name == "timings") && (settled || string(raw) == "null"):
		default:
			a.top[name] = raw
		}
	}
}

func (a *chunkAssembler) choice(n int, in object) error {
	c := a.choices[n]
	if c == nil {
		if len(a.choices) == maxParts {
			return errTooManyParts
		}
		c = &choice{last: object{}, logprobs: arrays{}, message: message{last: object{}, texts: texts{}, calls: map[int]*toolCall{}}}
		a.choices[n] = c
	}
	for name, raw := range in {
		switch {
		case name == "delta" && a.chat:
			delta, err := parse(raw)
			if err != nil {
				return err
			}
			if err := c.message.add(delta); err != nil {
				return err
			}
		case name == "text" && !a.chat:
			s, _ := in.text("text")
			c.text.WriteString(s)
		case name == "logprobs" && in.has(name):
			lp, err := parse(raw)
			if err != nil {
				return err
			}
			c.logprobs.addAll(lp)
		case in.has(name) || !c.last.has(name):
			c.last[name] = raw
		}
	}
	return nil
}

func (m *message) add(delta object) error {
	for name, raw := range delta {
		switch name {
		case "content", "reasoning_content", "reasoning", "refusal":
			if s, ok := delta.text(name); ok {
				m.texts.add(name, s)
			} else if delta.has(name) { // content in parts: not pieces of a text
				m.last[name] = raw
			}
		case "tool_calls":
			if err := m.addCalls(raw); err != nil {
				return err
			}
		default:
			m.last[name] = raw
		}
	}
	return nil
}

func (m *message) addCalls(raw json.RawMessage) error {
	var list []object
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	for i, in := range list {
		n := i
		if in.has("index") {
			if err := json.Unmarshal(in["index"], &n); err != nil {
				return err
			}
		}
		call := m.calls[n]
		if call == nil {
			if len(m.calls) == maxParts {
				return errTooManyParts
			}
			call = &toolCall{last: object{}, fn: object{}, texts: texts{}}
			m.calls[n] = call
		}
		if err := call.add(in); err != nil {
			return err
		}
	}
	return nil
}

func (t *toolCall) add(in object) error {
	for name, raw := range in {
		switch {
		case name == "index":
		case name == "function":
			fn, err := parse(raw)
			if err != nil {
				return err
			}
			for part, v := range fn {
				if s, ok := fn.text(part); ok && (part == "name" || part == "arguments") {
					t.texts.add(part, s)
				} else {
					t.fn[part] = v
				}
			}
		case in.has(name):
			t.last[name] = raw
		}
	}
	return nil
}

func (a *chunkAssembler) result() ([]byte, error) {
	if len(a.choices) == 0 {
		return nil, errNoAnswer
	}
	list := make([]object, 0, len(a.choices))
	for _, n := range sortedKeys(a.choices) {
		c, err := a.finished(n, a.choices[n])
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if err := a.top.put("choices", list); err != nil {
		return nil, err
	}
	if a.chat {
		a.top["object"] = json.RawMessage(`"chat.completion"`)
	}
	return json.Marshal(a.top)
}

func (a *chunkAssembler) finished(n int, c *choice) (object, error) {
	out := c.last
	if err := out.put("index", n); err != nil {
		return nil, err
	}
	if len(c.logprobs) > 0 {
		if err := out.put("logprobs", c.logprobs); err != nil {
			return nil, err
		}
	}
	if !a.chat {
		return out, out.put("text", c.text.String())
	}
	msg, err := c.message.finished()
	if err != nil {
		return nil, err
	}
	return out, out.put("message", msg)
}

func (m *message) finished() (object, error) {
	out := m.last
	if !out.has("role") {
		out["role"] = json.RawMessage(`"assistant"`)
	}
	for name, b := range m.texts {
		if err := out.put(name, b.String()); err != nil {
			return nil, err
		}
	}
	if !out.has("content") {
		out["content"] = json.RawMessage(`""`)
		if len(m.calls) > 0 {
			out["content"] = json.RawMessage("null")
		}
	}
	if len(m.calls) == 0 {
		return out, nil
	}
	calls := make([]object, 0, len(m.calls))
	for _, n := range sortedKeys(m.calls) {
		t := m.calls[n]
		for part, b := range t.texts {
			if err := t.fn.put(part, b.String()); err != nil {
				return nil, err
			}
		}
		if err := t.last.put("function", t.fn); err != nil {
			return nil, err
		}
		if !t.last.has("type") {
			t.last["type"] = json.RawMessage(`"function"`)
		}
		calls = append(calls, t.last)
	}
	return out, out.put("tool_calls", calls)
}
