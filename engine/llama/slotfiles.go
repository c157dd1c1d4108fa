package llama

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"viiwork/engine"
)

var _ engine.SlotFiles = (*Dialect)(nil)

// Save writes a slot to a file of the engine's slot folder. Errors: engine.ErrNoSlotFiles, engine.ErrSlotRefused, and
// those of the connection. An empty slot is refused: llama-server would write a file of nothing and say 200.
func (d *Dialect) Save(ctx context.Context, t engine.Target, slot int, file string) (engine.SlotFile, error) {
	return d.slotAction(ctx, t, slotAction{"save", slot, file})
}

// Restore fills a slot from a file of the engine's slot folder; its errors are those of Save. The engine reads a damaged
// file without complaint, so the caller must have checked it.
func (d *Dialect) Restore(ctx context.Context, t engine.Target, slot int, file string) (engine.SlotFile, error) {
	return d.slotAction(ctx, t, slotAction{"restore", slot, file})
}

type slotAction struct {
	name string
	slot int
	file string
}

func (d *Dialect) slotAction(ctx context.Context, t engine.Target, act slotAction) (engine.SlotFile, error) {
	body, err := json.Marshal(map[string]string{"filename": act.file})
	if err != nil {
		return engine.SlotFile{}, fmt.Errorf("writing the request: %w", err)
	}
	path := fmt.Sprintf("/slots/%d?action=%s", act.slot, act.name)
	began := time.Now()
	a, err := d.ask(ctx, t, http.MethodPost, path, body)
	if err != nil {
		return engine.SlotFile{}, err
	}
	switch a.status {
	case http.StatusOK:
		return a.slotFile(act, time.Since(began))
	case http.StatusNotImplemented, http.StatusNotFound:
		// Started without a folder, with a projector for images, or of another make.
		return engine.SlotFile{}, fmt.Errorf("%w: %w", engine.ErrNoSlotFiles, a.fault(t, path))
	case http.StatusBadRequest:
		return engine.SlotFile{}, fmt.Errorf("%w: %w", engine.ErrSlotRefused, a.fault(t, path))
	}
	return engine.SlotFile{}, a.fault(t, path)
}

// slotFile reads the answer. The time the engine gives is of the action alone; all that is known from outside holds the
// wait for the slot too, so it is the most that is believed.
func (a answer) slotFile(act slotAction, most time.Duration) (engine.SlotFile, error) {
	var said struct {
		Saved    count `json:"n_saved"`
		Restored count `json:"n_restored"`
		Written  count `json:"n_written"`
		Read     count `json:"n_read"`
		Timings  struct {
			Save    float64 `json:"save_ms"`
			Restore float64 `json:"restore_ms"`
		} `json:"timings"`
	}
	if err := json.Unmarshal(a.body, &said); err != nil {
		return engine.SlotFile{}, fmt.Errorf("reading the engine's answer to a %s: %w", act.name, err)
	}
	f := engine.SlotFile{Tokens: int(said.Saved), Bytes: int64(said.Written)}
	ms := said.Timings.Save
	if act.name == "restore" {
		f = engine.SlotFile{Tokens: int(said.Restored), Bytes: int64(said.Read)}
		ms = said.Timings.Restore
	}
	if f.Tokens == 0 {
		return engine.SlotFile{}, fmt.Errorf("%w: no token in a %s", engine.ErrSlotRefused, act.name)
	}
	f.Took = most
	if ms > 0 && ms < float64(most.Milliseconds()) {
		f.Took = time.Duration(ms * float64(time.Millisecond))
	}
	return f, nil
}
