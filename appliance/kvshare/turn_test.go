package kvshare_test

import (
	"context"
	"fmt"
	"testing"

	"viiwork/appliance/kvshare"
)

// TestWhatATurnDisplacesIsSavedBefore, and comes back when its conversation goes on.
func TestWhatATurnDisplacesIsSavedBefore(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{})
	var all []*talk
	for i := range 5 {
		c := newTalk(fmt.Sprint("one", i), 900+100*i)
		h.turn(c)
		all = append(all, c)
	}
	for range 3 {
		for _, c := range all {
			held := c.held
			h.turn(c, c.own())
			if c.moved != "import" || !c.warm(held) {
				t.Errorf("%s came by %q and found %d of %d tokens\n%s", c.session, c.moved, c.cached, held, h.log)
			}
		}
	}
	h.isTidy()
}

// TestConversationsOfOneLengthAreToldApart while one of them is at work: their slots look alike.
func TestConversationsOfOneLengthAreToldApart(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 3, args: []string{"--fake-decode-tps", "100"}})
	a, b, c := newTalk("one", 1200), newTalk("two", 1200), newTalk("six", 1200)
	h.turn(a)
	h.turn(b)
	a.says("> ")
	at, err := h.begin(context.Background(), a, 600) // 6 s: longer than the turns meanwhile
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		h.turn(newTalk(fmt.Sprint("more", i), 1000))
	}
	at.end()
	h.turn(c)
	for _, c := range []*talk{a, b} {
		held := c.held
		h.turn(c, c.own())
		if !c.warm(held) {
			t.Errorf("%s found %d of %d tokens", c.session, c.cached, held)
		}
	}
	h.isTidy()
}

// TestASaveIsWorthWhatTheStoreLacks: a short turn more is not worth the standstill that a long conversation is, unless copies
// are to be fresh.
func TestASaveIsWorthWhatTheStoreLacks(t *testing.T) {
	t.Parallel()
	for mode, want := range map[kvshare.Mode]int{kvshare.Pull: 1, kvshare.Replicate: 2} {
		h := newHost(t, plan{mode: mode, prefill: 100, args: []string{"--fake-state-bytes", "2048", "--fake-save-bps", "5000000"}})
		c := newTalk("one", 1200) // 12 s to compute, half a second to save at the least, and a turn more is a tenth of one
		for range 2 {
			h.turn(c)
			_, _ = h.Manifest(context.Background(), fmt.Sprintf("%x", c.chain[len(c.chain)-1])) // what is worth it is saved for who asks
		}
		if got := h.Report("n").Models[0].Saves; got != want {
			t.Errorf("%s: %d saves, want %d\n%s", mode, got, want, h.log)
		}
	}
}
