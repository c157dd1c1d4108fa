package appliance_test

import (
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

// TestWhoLeavesPassesOnWhatComesInByIt until it answers nobody any more: its goodbye takes seconds, and its clients must
// not be refused meanwhile for what another node would answer.
func TestWhoLeavesPassesOnWhatComesInByIt(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 200})
	all := lanFellows(t, 2, func(i int) []string {
		if i == 0 {
			return []string{served("m", engine.URL(), 4)}
		}
		return nil
	})
	entry := all[1]
	entry.drain = "20s"
	all[0].here(t)
	leave := entry.here(t)
	holds(t, "the entry sees the model", func() bool { return entry.sees("m") == 1 })
	left := make(chan error, 1)
	go func() { left <- leave() }()
	begun, answered := time.Now(), 0
	for {
		got := entry.chat("", question("m", "on the way down", 4, true))
		if got.err != nil {
			break // it answers nobody any more
		}
		if !got.complete(true) {
			t.Fatalf("after %s: %d %.300s", time.Since(begun), got.status, got.body)
		}
		answered++
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
	t.Logf("%d requests were answered in the %s of a goodbye", answered, time.Since(begun).Round(10*time.Millisecond))
	if answered < 3 {
		t.Error("nothing came in by it: the test shows nothing")
	}
}
