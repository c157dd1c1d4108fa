package store_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
	"viiwork/appliance/kvshare/store"
)

func TestOnlyWhatIsMissingHasToCome(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(3078, 1))
	next := state(3659, 1)
	m, chunks := manifestOf(t, next)
	a, err := f.Begin("bb", m)
	if err != nil {
		t.Fatal(err)
	}
	lacks := a.Lacks()
	if want := f.Lacks(m); len(want) != len(lacks) {
		t.Errorf("the store lacks %d chunks, the arrival %d", len(want), len(lacks))
	}
	come := 0
	for _, i := range lacks {
		if err := a.Commit(); !errors.Is(err, store.ErrIncomplete) {
			t.Fatalf("with %d chunks missing: %v", len(a.Lacks()), err)
		}
		if err := errors.Join(a.Put(i, chunks[i]), a.Put(i, chunks[i])); err != nil {
			t.Fatal(err)
		}
		come += len(chunks[i])
	}
	if share := float64(come) / float64(m.Size); share > 0.17 {
		t.Errorf("%.3f of the state had to come", share)
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	f.holds("bb", next)
	f.weighs()
	if err := errors.Join(a.Put(0, chunks[0]), a.Commit()); err == nil {
		t.Error("an arrival goes on after its end")
	}
}

func TestBytesThatAreNotTheChunkAreRefused(t *testing.T) {
	f := open(t, 64*mib)
	m, chunks := manifestOf(t, state(300, 1))
	a, err := f.Begin("aa", m)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(chunks[1])
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		i int
		b []byte
	}{
		"flipped": {1, flipped}, "short": {1, chunks[1][1:]}, "long": {1, append(bytes.Clone(chunks[1]), 0)}, "nothing": {1, nil},
		"another": {1, chunks[2]}, "before the first": {-1, chunks[1]}, "behind the last": {len(chunks), chunks[1]},
	} {
		if err := a.Put(c.i, c.b); !errors.Is(err, store.ErrWrongChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Abort()
	if n := f.weighs(); n != 0 {
		t.Errorf("%d bytes are kept of what was refused", n)
	}
}

// A manifest may say of a chunk we have that it is of another size.
func TestAChunkOfAnotherSizeIsNotTheOneWeHave(t *testing.T) {
	f := open(t, 64*mib)
	m, _ := f.save("aa", state(300, 1))
	lie := m
	lie.Chunks = append([]replica.Chunk{}, m.Chunks...)
	lie.Chunks[0].Size++
	lie.Size++
	a, err := f.Begin("bb", lie)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(); !errors.Is(err, store.ErrIncomplete) {
		t.Errorf("it was kept: %v", err)
	}
	a.Abort()
	f.holds("aa", state(300, 1))
}

func TestAnArrivalThatBrokeOffGoesOnWhereItStopped(t *testing.T) {
	for name, again := range map[string]func(*fixture, *store.Arrival){
		"aborted": func(_ *fixture, a *store.Arrival) { a.Abort() },
		"restarted": func(f *fixture, a *store.Arrival) {
			a.Abort()
			f.reopen()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, 64*mib)
			whole := state(2000, 1)
			m, chunks := manifestOf(t, whole)
			half := func() {
				a, err := f.Begin("aa", m)
				if err != nil {
					t.Fatal(err)
				}
				lacks := a.Lacks()
				for _, i := range lacks[:min(len(lacks), len(chunks)/2+1)] {
					if err := a.Put(i, chunks[i]); err != nil {
						t.Fatal(err)
					}
				}
				again(f, a)
			}
			half()
			f.weighs()
			if n := len(f.Lacks(m)); n > len(chunks)/2+1 {
				t.Errorf("%d of %d chunks are missing after half have come", n, len(chunks))
			}
			if len(f.List()) != 0 {
				t.Error("half a replica is listed")
			}
			half()
			a, err := f.Begin("aa", m)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Commit(); err != nil {
				t.Fatal(err)
			}
			f.holds("aa", whole)
		})
	}
}

func TestWhatIsLeftOfAnArrivalIsDeletedInTime(t *testing.T) {
	f := open(t, 64*mib)
	m, chunks := manifestOf(t, state(2000, 1))
	a, err := f.Begin("aa", m)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range chunks[:50] {
		if err := a.Put(i, b); err != nil {
			t.Fatal(err)
		}
	}
	a.Abort()
	f.clock.add(14 * time.Minute)
	f.Tidy(t.Context())
	if n := len(f.Lacks(m)); n > len(chunks)-50 {
		t.Errorf("%d of %d chunks are missing after 14 minutes", n, len(chunks))
	}
	f.clock.add(2 * time.Minute)
	f.Tidy(t.Context())
	if n := f.weighs(); n != 0 {
		t.Errorf("%d bytes are kept after 16 minutes", n)
	}
}

func TestTwoArrivalsOfOneStateKeepItOnce(t *testing.T) {
	f := open(t, 64*mib)
	whole := replicatest.State(replicatest.Tokens(1500, 1), replicatest.Shape{Window: 100})
	m, chunks := manifestOf(t, whole)
	var arrivals []*store.Arrival
	for _, n := range []store.Name{"aa", "bb", "aa"} {
		a, err := f.Begin(n, m)
		if err != nil {
			t.Fatal(err)
		}
		arrivals = append(arrivals, a)
	}
	for i := range chunks {
		for _, a := range arrivals {
			if err := a.Put(i, chunks[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, a := range arrivals {
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	f.Tidy(t.Context())
	if n := f.weighs(); n > m.Size*5/4 {
		t.Errorf("%d bytes are kept of a state of %d", n, m.Size)
	}
	f.Drop("aa", key)
	f.holds("bb", whole)
	f.Drop("bb", key)
	f.Tidy(t.Context())
	if n := f.weighs(); n != 0 {
		t.Errorf("%d bytes are kept when all is dropped", n)
	}
}

func TestAChunkIsFoundByItsHash(t *testing.T) {
	f := open(t, 64*mib)
	m, _ := f.save("aa", state(500, 1))
	buf := make([]byte, replica.MaxChunk)
	for _, c := range m.Chunks {
		if b, err := f.Chunk(c.Sum, buf); err != nil || len(b) != int(c.Size) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	if _, err := f.Chunk(replica.Sum{}, buf); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a chunk that is not here: %v", err)
	}
}
