package appliance_test

import (
	"testing"

	"viiwork/engine/enginetest"
)

// TestARestartedNodeFindsWhoItKnew: one whose seed is given nowhere any more, here or there, asks those it remembers.
func TestARestartedNodeFindsWhoItKnew(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 1, Model: "m"})
	all := lanFellows(t, 2, func(i int) []string {
		if i == 0 {
			return []string{served("m", engine.URL(), 1)}
		}
		return nil
	})
	for _, f := range all {
		f.secret = rightSecret
		f.spawn(t)
	}
	restarted := all[1]
	holds(t, "it sees the model", func() bool { return restarted.sees("m") == 1 })
	restarted.leave()
	restarted.seeds = nil
	restarted.spawn(t)
	holds(t, "it sees the model again", func() bool { return restarted.sees("m") == 1 })
}
