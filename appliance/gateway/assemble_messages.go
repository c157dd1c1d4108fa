package gateway

import (
	"encoding/json"
	"errors"
)

// messageAssembler puts the events of the Anthropic Messages API together.
type messageAssembler struct {
	message object
	usage   object
	blocks  map[int]*block
}

// block is one content block that comes in deltas.
type block struct {
	start object
	texts texts  // text, thinking, signature, and the JSON of a tool's input under "input"
	lists arrays // citations
}

// grows names the block's member that a delta's member is a piece of.
var grows = map[string]struct{ from, to string }{
	"text_delta":       {"text", "text"},
	"thinking_delta":   {"thinking", "thinking"},
	"signature_delta":  {"signature", "signature"},
	"input_json_delta": {"partial_json", "input"},
}

func (a *messageAssembler) add(name string, data []byte) error {
	ev, err := parse(data)
	if err != nil {
		return err
	}
	if name == "" {
		name, _ = ev.text("type")
	}
	switch name {
	case "message_start":
		return a.begin(ev)
	case "content_block_start", "content_block_delta":
		return a.block(name, ev)
	case "message_delta":
		return a.delta(ev)
	}
	return nil
}

func (a *messageAssembler) begin(ev object) (err error) {
	if a.message, err = parse(ev["message"]); err != nil {
		return err
	}
	a.usage, a.blocks = object{}, map[int]*block{}
	return a.addUsage(a.message["usage"])
}

// addUsage merges counts: the start knows the prompt, the end the output.
func (a *messageAssembler) addUsage(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	u, err := parse(raw)
	if err != nil {
		return err
	}
	for k, v := range u {
		a.usage[k] = v
	}
	return nil
}

var errOutOfOrder = errors.New("an event comes before the one that must precede it")

func (a *messageAssembler) block(name string, ev object) error {
	var n int
	if err := json.Unmarshal(ev["index"], &n); err != nil {
		return err
	}
	if a.message == nil {
		return errOutOfOrder
	}
	if name == "content_block_start" {
		start, err := parse(ev["content_block"])
		if err != nil {
			return err
		}
		if len(a.blocks) == maxParts {
			return errTooManyParts
		}
		b := &block{start: start, texts: texts{}, lists: arrays{}}
		for _, member := range []string{"text", "thinking", "signature"} {
			if s, ok := start.text(member); ok {
				b.texts.add(member, s)
			}
		}
		a.blocks[n] = b
		return nil
	}
	b := a.blocks[n]
	if b == nil {
		return errOutOfOrder
	}
	return b.add(ev["delta"])
}

func (b *block) add(raw json.RawMessage) error {
	delta, err := parse(raw)
	if err != nil {
		return err
	}
	kind, _ := delta.text("type")
	if kind == "citations_delta" && delta.has("citation") {
		b.lists["citations"] = append(b.lists["citations"], delta["citation"])
		return nil
	}
	if g, ok := grows[kind]; ok {
		s, _ := delta.text(g.from)
		b.texts.add(g.to, s)
	}
	return nil
}

func (a *messageAssembler) delta(ev object) error {
	if a.message == nil {
		return errOutOfOrder
	}
	delta, err := parse(ev["delta"])
	if err != nil {
		return err
	}
	for k, v := range delta {
		a.message[k] = v
	}
	for k, v := range ev {
		if k != "type" && k != "delta" && k != "usage" {
			a.message[k] = v
		}
	}
	return a.addUsage(ev["usage"])
}

func (a *messageAssembler) result() ([]byte, error) {
	if a.message == nil {
		return nil, errNoAnswer
	}
	content := make([]object, 0, len(a.blocks))
	for _, n := range sortedKeys(a.blocks) {
		b, err := a.blocks[n].finished()
		if err != nil {
			return nil, err
		}
		content = append(content, b)
	}
	if err := a.message.put("content", content); err != nil {
		return nil, err
	}
	if err := a.message.put("usage", a.usage); err != nil {
		return nil, err
	}
	return json.Marshal(a.message)
}

func (b *block) finished() (object, error) {
	out := b.start
	for member, text := range b.texts {
		if member == "input" {
			continue
		}
		if err := out.put(member, text.String()); err != nil {
			return nil, err
		}
	}
	for member, items := range b.lists {
		if err := out.put(member, items); err != nil {
			return nil, err
		}
	}
	if in := b.texts["input"]; in != nil && in.Len() > 0 {
		if !json.Valid([]byte(in.String())) { // cut off by max_tokens: nothing usable came
			out["input"] = json.RawMessage("{}")
		} else {
			out["input"] = json.RawMessage(in.String())
		}
	}
	return out, nil
}
