package llama

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"viiwork/engine"
)

// maxSlots bounds the slots one engine may report; llama-server itself has at most 256 sequences.
const maxSlots = 1024

// Slots asks /slots. A server without it, or with it switched off, is an error.
func (d *Dialect) Slots(ctx context.Context, t engine.Target) ([]engine.SlotState, error) {
	a, err := d.get(ctx, t, "/slots")
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, a.fault(t, "/slots")
	}
	return readSlots(a.body)
}

// slot is one element of /slots over the builds: next_token was an object before it became a list of one, and
// is_processing was a number called state.
type slot struct {
	ID         count  `json:"id"`
	Processing bool   `json:"is_processing"`
	State      count  `json:"state"`
	Tokens     count  `json:"n_prompt_tokens"`
	Past       count  `json:"n_past"`
	Processed  count  `json:"n_prompt_tokens_processed"`
	Next       tokens `json:"next_token"`
	Task       task   `json:"id_task"`
}

func readSlots(body []byte) ([]engine.SlotState, error) {
	var list []slot
	if err := json.Unmarshal(body, &list); err != nil {
		var wrapped struct {
			Slots []slot `json:"slots"`
		}
		if json.Unmarshal(body, &wrapped) != nil || wrapped.Slots == nil {
			return nil, fmt.Errorf("reading the engine's slots: %w", err)
		}
		list = wrapped.Slots
	}
	if len(list) > maxSlots {
		return nil, fmt.Errorf("reading the engine's slots: it reports %d of them", len(list))
	}
	states := make([]engine.SlotState, len(list))
	for i, s := range list {
		states[i] = engine.SlotState{
			ID:         int(s.ID),
			Processing: s.Processing || s.State > 0,
			Tokens:     int(max(s.Tokens, s.Past)),
			Work:       int(s.Processed) + int(s.Next.decoded),
			Task:       s.Task.id(),
		}
	}
	return states, nil
}

// tokens reads next_token in both its forms.
type tokens struct{ decoded count }

func (n *tokens) UnmarshalJSON(data []byte) error {
	type form struct {
		Decoded count `json:"n_decoded"`
	}
	var one form
	var many []form
	switch {
	case json.Unmarshal(data, &one) == nil:
		n.decoded = one.Decoded
	case json.Unmarshal(data, &many) == nil && len(many) > 0:
		n.decoded = many[0].Decoded
	}
	return nil
}

// task is a task's number and one more, so that zero stands for none.
type task int64

func (t *task) UnmarshalJSON(data []byte) error {
	*t = 0
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err == nil && n >= 0 && n < 1<<40 {
		*t = task(n) + 1
	}
	return nil
}

func (t task) id() int { return int(t) - 1 }

// count is a number of tokens or slots as servers write them: whole, with a decimal point, or null. What is not
// sensible reads as zero; no engine holds more than 2^40 of anything.
type count int64

func (c *count) UnmarshalJSON(data []byte) error {
	*c = 0
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(data)), 64)
	if err == nil && f >= 0 && f < 1<<40 {
		*c = count(f)
	}
	return nil
}
