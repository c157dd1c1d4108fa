package appliance_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// TestPipesInPlaceOfItsFilesKeepNoNodeFromItsWork: who opens one to read waits for its other end. One that writes nothing is as
// bad as none.
func TestPipesInPlaceOfItsFilesKeepNoNodeFromItsWork(t *testing.T) {
	t.Parallel()
	f, other := lanFellow(t, 0), lanFellow(t, 1)
	f.secret, other.secret, other.seeds = rightSecret, rightSecret, []string{f.seed()}
	for _, name := range []string{"aliases.json", "calibration.json", "handover.json", "meshlock.json", "rates.json", "secret", "session-key", "serf/members", "tsnode/id", "tsnode/udp-port"} {
		path := filepath.Join(f.dir, "state", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		silent, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	started := make(chan func() error, 1)
	go func() { started <- f.here(t) }()
	select {
	case leave := <-started:
		other.here(t)
		holds(t, "it is in its mesh", func() bool { return f.member(other.name) == "alive" })
		if err := leave(); err != nil {
			t.Error(err)
		}
	case <-time.After(longWait):
		t.Fatal("it waits")
	}
}
