package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"viiwork/appliance/kvshare/store"
)

func TestWhatWasUsedLongestAgoMakesRoom(t *testing.T) {
	f := open(t, 9*mib)
	for i := range uint64(4) { // 7.9 MiB
		f.save(store.Name(fmt.Sprintf("a%d", i)), state(1000, i))
		f.clock.add(time.Minute)
	}
	f.Touch("a0", key)
	f.save("b0", state(1000, 9))
	f.save("b1", state(1000, 10))
	if n := f.weighs(); n > 9*mib {
		t.Errorf("%d bytes are kept, over the budget", n)
	}
	for n, want := range map[store.Name]bool{"a0": true, "a1": false, "a2": false, "a3": true, "b0": true, "b1": true} {
		if _, err := f.assemble(n); (err == nil) != want {
			t.Errorf("%s: %v, want it kept: %t", n, err, want)
		}
	}
}

// A hundred turns of three conversations must not fill the disk with what is no longer needed.
func TestTheBytesOfPredecessorsAreGivenBack(t *testing.T) {
	f := open(t, 20*mib)
	for turn := range 40 {
		for c := range uint64(3) {
			f.save(store.Name(fmt.Sprintf("c%d", c)), state(100+turn*50, c))
		}
		f.Tidy(t.Context())
		if n := f.weighs(); n > 20*mib {
			t.Fatalf("%d bytes are kept, over the budget", n)
		}
	}
	for c := range uint64(3) {
		f.holds(store.Name(fmt.Sprintf("c%d", c)), state(100+39*50, c))
	}
	for c := range 3 {
		f.Drop(store.Name(fmt.Sprintf("c%d", c)), key)
	}
	f.Tidy(t.Context())
	if n := f.weighs(); n != 0 {
		t.Errorf("%d bytes are kept when nothing is", n)
	}
}

// A pack of which most is needed is not written anew for a little: but what was deleted must not stay for ever.
func TestWhatWasDeletedIsOffTheDiskInADay(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(200, 1))
	f.save("bb", state(600, 2))
	f.Drop("aa", key)
	before := f.weighs()
	f.Tidy(t.Context())
	if n := f.weighs(); n != before {
		t.Errorf("a pack was written anew at once: %d bytes, then %d", before, n)
	}
	f.clock.add(23 * time.Hour)
	f.Touch("bb", key)
	f.clock.add(2 * time.Hour)
	f.Tidy(t.Context())
	if n := f.weighs(); n > before-300_000 {
		t.Errorf("%d bytes before a day has passed, %d after", before, n)
	}
	f.holds("bb", state(600, 2))
}

func TestAPredecessorGoesOnlyWhereNothingElseCan(t *testing.T) {
	f := open(t, 10*mib)
	f.save("aa", state(2000, 1)) // 4.1 MiB
	f.save("bb", state(1500, 2)) // 3.1 MiB
	f.clock.add(time.Minute)
	f.Touch("bb", key)
	f.save("aa", state(2200, 3)) // all of it new: 4.5 MiB
	f.holds("aa", state(2200, 3))
	if _, err := f.Reader("bb", key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other one, though younger: %v", err)
	}
	f.save("aa", state(4000, 4)) // 8.2 MiB: both do not fit
	f.holds("aa", state(4000, 4))
	f.weighs()
}

func TestAReplicaStaysWhileItsSuccessorArrives(t *testing.T) {
	f := open(t, 10*mib)
	f.save("aa", state(2000, 1)) // 3.9 MiB
	f.clock.add(time.Minute)
	f.save("bb", state(2000, 2)) // used later
	m, _ := manifestOf(t, state(2100, 1))
	a, err := f.Begin("aa", m)
	if err != nil {
		t.Fatal(err)
	}
	f.save("cc", state(1500, 3))
	f.holds("aa", state(2000, 1))
	a.Abort()
	f.clock.add(time.Minute)
	f.Touch("cc", key)
	f.save("dd", state(2500, 4))
	if _, err := f.Reader("aa", key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("when nothing arrives any more: %v", err)
	}
}
