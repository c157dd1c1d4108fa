package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"viiwork/appliance/kvshare/store"
)

// TestEveryCommittedReplicaOutlivesCrashes does what comes, and now and then starts anew with what a crash may have left:
// bytes behind the end of packs, files under names of no run, packs that nobody needs.
func TestEveryCommittedReplicaOutlivesCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f := open(t, 24*mib)
	kept := map[store.Name][]byte{}
	check := func() {
		for _, k := range f.List() {
			f.holds(k.Name, kept[k.Name])
		}
	}
	for step := range 80 {
		c := r.Uint64N(5)
		n := store.Name(fmt.Sprintf("c%d", c))
		next := state(50+step*10+r.IntN(300), c*1000+r.Uint64N(2))
		switch r.IntN(8) {
		case 0, 1, 2:
			if _, _, err := f.trySave(n, next); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			kept[n] = next
		case 3, 4:
			if err := f.arrive(n, next, r); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			kept[n] = next
		case 5:
			f.breakOff(n, next, r).Abort()
		case 6:
			f.clock.add(time.Duration(r.IntN(20)) * time.Minute)
			f.Drop(n, key)
			f.Tidy(t.Context())
		case 7:
			f.breakOff(n, next, r)
			f.tear(r)
			f.reopen()
			check()
		}
		if before := f.weighs(); before > f.cfg.Budget {
			t.Fatalf("step %d: %d bytes are kept", step, before)
		}
	}
	check()
	if len(f.List()) == 0 {
		t.Error("nothing was kept at all")
	}
}

// breakOff brings some of a state.
func (f *fixture) breakOff(n store.Name, state []byte, r *rand.Rand) *store.Arrival {
	f.Helper()
	m, chunks := manifestOf(f, state)
	a, err := f.Begin(n, m)
	if err != nil {
		f.Fatal(err)
	}
	for _, i := range a.Lacks() {
		if r.IntN(3) > 0 {
			if err := a.Put(i, chunks[i]); err != nil {
				f.Fatal(err)
			}
		}
	}
	return a
}

// tear leaves in the folder what a crash may leave.
func (f *fixture) tear(r *rand.Rand) {
	f.Helper()
	for _, path := range f.packs() {
		garbage := make([]byte, r.IntN(300))
		if r.IntN(2) == 0 {
			for i := range garbage {
				garbage[i] = byte(r.Uint32())
			}
		}
		p, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(f, err)
		_, err = p.Write(garbage)
		must(f, errors.Join(err, p.Close()))
	}
	must(f, os.WriteFile(filepath.Join(f.cfg.Dir, "replicas", fmt.Sprintf(".new-%d", r.IntN(9))), make([]byte, r.IntN(100)), 0o600))
	must(f, os.WriteFile(filepath.Join(f.cfg.Dir, "packs", fmt.Sprintf("%016x.pack", 1<<40+r.IntN(1<<20))), []byte("vwkvpak1")[:r.IntN(8)], 0o600))
}
