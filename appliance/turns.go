package appliance

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine"
)

const (
	turnLook  = 250 * time.Millisecond
	turnSpare = time.Minute // of each backend, for the old engine to finish what it runs, beside the time that the new one has to load
)

// turns lets models that serve, and change nothing but their image, do so one after the other: an image that does not hold
// takes one model down, not all that share it, and no more than one engine is held beyond what was planned. Its owner's lock
// is held around each method.
type turns struct {
	wanted  []engine.Model // by the configuration and the book of images
	running []engine.Model // as the engine was told
	turn    string         // the model whose turn it is; "" = nobody's
	since   time.Time      // of that
	waiting []string       // models that have yet to change
	stuck   bool           // the one whose turn it is does not come back
}

// want takes a new list and returns what the engine is to be told of it now.
func (t *turns) want(models []engine.Model, now []engine.ModelState) []engine.Model {
	t.wanted = models
	return t.next(now)
}

// next lets the first of those that wait have its turn, unless one has it that is on its way. A reload is a person's word
// that one which is stuck is to be passed over.
func (t *turns) next(now []engine.ModelState) []engine.Model {
	told := slices.Clone(t.wanted)
	if t.stuck || isServing(now, t.turn) && !isChanging(now, t.turn) || t.image(t.turn) != imageIn(told, t.turn) {
		t.turn, t.since = "", time.Now()
	}
	t.waiting, t.stuck = nil, false
	for i, m := range told {
		old := slices.IndexFunc(t.running, func(r engine.Model) bool { return r.Name == m.Name })
		if old < 0 || t.running[old].Image == m.Image || !isServing(now, m.Name) {
			continue
		}
		same := m
		same.Image = t.running[old].Image
		switch {
		case !reflect.DeepEqual(same, t.running[old]): // it is changed in other ways, too
		case t.turn == "":
			t.turn, t.since = m.Name, time.Now()
		default:
			told[i] = same
			t.waiting = append(t.waiting, m.Name)
		}
	}
	t.running = told
	return told
}

// due tells whether the next one may have its turn: the last one serves from its new image, and nothing is left of the old.
// One that does not keeps the others waiting.
func (t *turns) due(now []engine.ModelState) bool {
	if len(t.waiting) == 0 {
		return false
	}
	i := slices.IndexFunc(now, func(s engine.ModelState) bool { return s.Model.Name == t.turn })
	if i < 0 {
		return true
	}
	arrived := !slices.ContainsFunc(now[i].Backends, func(b engine.BackendState) bool {
		return !serving(b) || b.Change != nil && b.Change.State != engine.StateDraining
	})
	if arrived && now[i].Model.Image == t.image(t.turn) {
		t.stuck = false
		return !isChanging(now, t.turn) // an old engine may still be at what it ran
	}
	t.stuck = slices.ContainsFunc(now[i].Backends, changeFailed) ||
		time.Since(t.since) > time.Duration(max(len(now[i].Backends), 1))*(now[i].Model.StartupTimeout+turnSpare)
	return false
}

// isChanging tells whether an engine of a model is on its way out or in.
func isChanging(now []engine.ModelState, model string) bool {
	return slices.ContainsFunc(now, func(s engine.ModelState) bool {
		return s.Model.Name == model && slices.ContainsFunc(s.Backends, func(b engine.BackendState) bool {
			return b.Change != nil && b.Change.State != engine.StateFailed
		})
	})
}

func changeFailed(b engine.BackendState) bool {
	return b.Change != nil && b.Change.State == engine.StateFailed
}

// changeWarnings names the backends whose new engine did not come up.
func changeWarnings(now []engine.ModelState) (all []status.Warning) {
	for _, m := range now {
		for _, b := range m.Backends {
			if changeFailed(b) {
				all = append(all, status.Warning{
					ID:   "engine_change",
					Text: fmt.Sprintf("the new engine of %s did not come up, and the one before serves on: %s", b.ID, b.Change.Err),
					Fix:  "mend what it says, or go back to the image or binary of before; then reload",
				})
			}
		}
	}
	return all
}

func (t *turns) image(model string) string { return imageIn(t.running, model) }

func imageIn(models []engine.Model, model string) string {
	for _, m := range models {
		if m.Name == model {
			return m.Image
		}
	}
	return ""
}

func (t *turns) warning() []status.Warning {
	if !t.stuck {
		return nil
	}
	return []status.Warning{{
		ID:   "image_turn",
		Text: fmt.Sprintf("%s does not serve from its new image, so the models that wait for their turn keep the old one: %s", t.turn, strings.Join(t.waiting, ", ")),
		Fix:  "'viiwork logs' tells why; fetch the image of before with 'viiwork images pull NAME --digest sha256:…' and reload",
	}}
}

func isServing(now []engine.ModelState, model string) bool {
	return slices.ContainsFunc(now, func(s engine.ModelState) bool {
		return s.Model.Name == model && slices.ContainsFunc(s.Backends, serving)
	})
}

// runTurns gives the next model its turn when the last one is back.
func (a *Appliance) runTurns(ctx context.Context) {
	look := time.NewTicker(turnLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		a.mu.Lock()
		if len(a.turns.waiting) > 0 {
			if now := a.engine.Snapshot(); a.turns.due(now) {
				a.engine.Apply(a.turns.next(now))
				a.log.Info("a model changes to another image", "model", a.turns.turn, "waiting", len(a.turns.waiting))
			}
		}
		a.mu.Unlock()
	}
}
