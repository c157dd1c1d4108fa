package kvshare_test

import (
	"context"
	"testing"
	"time"
)

// TestWhatEndsLateIsGivenAwayToo: a turn that ran while the others were given away leaves its cache in the store as well, before
// its node goes.
func TestWhatEndsLateIsGivenAwayToo(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 4, args: []string{"--fake-decode-tps", "1000"}})
	h.joins("h")
	early, late := newTalk("one", 1000), newTalk("two", 1500)
	h.turn(early)
	late.says("> ")
	running, err := h.begin(context.Background(), late, 400)
	if err != nil {
		t.Fatal(err)
	}
	once := func(stored int) context.Context { // ends when so many are: nobody is there to make a copy
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		go func() {
			defer cancel()
			for ctx.Err() == nil && len(h.store.List()) < stored {
				time.Sleep(2 * time.Millisecond)
			}
		}()
		return ctx
	}
	if moved, of := h.Leave(once(1)); moved != 0 || of != 1 {
		t.Errorf("%d of %d have a copy", moved, of)
	}
	running.end()
	h.LeaveLate(once(2))
	if alone, all := h.known.Own(); alone != 2 || all != 2 {
		t.Errorf("%d of %d are here alone, want both", alone, all)
	}
	h.saved(late)
}
