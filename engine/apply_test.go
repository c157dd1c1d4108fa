package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"viiwork/engine"
)

func TestApplyLeavesUnchangedBackendsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		same, changed, removed := h.model("same", 1, 1), h.model("changed", 1, 1), h.model("removed", 1, 1)
		h.run(same, changed, removed)
		pass(5 * time.Second)
		l := h.acquire(engine.Request{Model: "same"})
		granted := make(chan *engine.Lease, 1)
		go func() {
			l, _ := h.Acquire(context.Background(), engine.Request{Model: "same"})
			granted <- l
		}()
		pass(time.Second)

		other := changed
		other.Args = []string{"--x"}
		equal := same
		equal.Args = []string{} // an empty list is no list
		h.Apply([]engine.Model{h.model("new", 1, 1), other, equal})
		pass(5 * time.Second)
		if all := h.runner.of("same#0"); len(all) != 1 || !all[0].alive() {
			t.Fatal("the unchanged engine was touched")
		}
		if all := h.runner.of("changed#0"); len(all) != 2 || !all[0].wasStopped() || !all[1].alive() {
			t.Fatalf("the changed model has %d processes, want the old stopped and a new one", len(all))
		}
		if all := h.runner.of("removed#0"); len(all) != 1 || !all[0].wasStopped() {
			t.Fatal("the removed engine runs on")
		}
		h.want("new#0", engine.StateReady)
		if h.waiting("same") != 1 || h.Snapshot()[0].Model.Name != "new" {
			t.Errorf("waiting %d, first %s", h.waiting("same"), h.Snapshot()[0].Model.Name)
		}
		if _, err := h.Acquire(t.Context(), engine.Request{Model: "removed"}); !errors.Is(err, engine.ErrUnknownModel) {
			t.Errorf("removed model: %v", err)
		}
		l.Release()
		(<-granted).Release()
	})
}

func TestRemovedModelFinishesWhatItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		refused := make(chan error, 1)
		go func() {
			_, err := h.Acquire(context.Background(), engine.Request{Model: "m"})
			refused <- err
		}()
		pass(time.Second)
		h.Apply(nil)
		if err := <-refused; !errors.Is(err, engine.ErrUnknownModel) {
			t.Errorf("waiter got %v", err)
		}
		pass(20 * time.Second)
		p := h.runner.all()[0]
		if !p.alive() {
			t.Fatal("stopped while a lease was held")
		}
		l.Release()
		pass(time.Second)
		if !p.wasStopped() {
			t.Fatal("not stopped after the last lease")
		}
	})
}

func TestRemovedModelIsStoppedAfterAWhileAnyway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		h.Apply(nil)
		pass(31 * time.Second)
		if !h.runner.all()[0].wasStopped() {
			t.Fatal("runs on after 31 s")
		}
		l.Release()
	})
}

// The cards of a removed model are free only once its engine has ended.
func TestSuccessorWaitsForTheCards(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		old, next, apart := h.model("old", 1, 1), h.model("next", 1, 1), h.model("apart", 1, 1)
		old.Accel, old.Backends[0].GPUs = engine.AccelCUDA, []int{0, 1}
		next.Accel, next.Backends[0].GPUs = engine.AccelCUDA, []int{1}
		apart.Accel, apart.Backends[0].GPUs = engine.AccelCUDA, []int{2}
		h.run(old)
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "old"})
		h.Apply([]engine.Model{next, apart})
		pass(10 * time.Second)
		h.want("next#0", engine.StateStarting)
		h.want("apart#0", engine.StateReady)
		l.Release()
		pass(2 * time.Second)
		h.want("next#0", engine.StateReady)
	})
}

func TestChangedModelWaitsForItsPredecessor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 1)
		h.run(m)
		pass(2 * time.Second)
		l := h.acquire(engine.Request{Model: "m"})
		m.Args = []string{"--x"}
		h.Apply([]engine.Model{m})
		pass(10 * time.Second)
		if all := h.runner.all(); len(all) != 1 || !all[0].alive() {
			t.Fatal("the process was replaced while a lease was held")
		}
		l.Release()
		pass(2 * time.Second)
		h.want("m#0", engine.StateReady)
		h.acquire(engine.Request{Model: "m"}).Release()
	})
}

func TestModelAppliedTwiceBeforeRunStartsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHouse(t)
		m := h.model("m", 1, 1)
		h.Apply([]engine.Model{m, m})
		h.Apply([]engine.Model{h.model("dropped", 1, 1)})
		h.run(m)
		pass(2 * time.Second)
		if n := len(h.runner.all()); n != 1 {
			t.Errorf("%d processes, want 1", n)
		}
		h.want("m#0", engine.StateReady)
	})
}
