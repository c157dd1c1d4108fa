package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
	"viiwork/appliance/kvshare/store"
)

func TestAReplicaComesBackAsItWasKept(t *testing.T) {
	f := open(t, 64*mib)
	states := map[store.Name][]byte{
		"aa": state(1000, 1), "bb": state(1, 2), "cc": []byte("no state of any engine"), "dd": replicatest.State(replicatest.Tokens(700, 3), replicatest.Shape{Window: 99}),
	}
	for n, b := range states {
		f.save(n, b)
	}
	for range 2 {
		for n, b := range states {
			f.holds(n, b)
		}
		f.weighs()
		f.reopen()
	}
	if n := len(f.List()); n != len(states) {
		t.Errorf("%d replicas are listed, want %d", n, len(states))
	}
}

func TestASuccessorAddsOnlyWhatIsNew(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(3078, 1))
	before := f.weighs()
	after := state(3659, 1)
	m, added := f.save("aa", after)
	if share := float64(added.Bytes) / float64(m.Size); share > 0.17 {
		t.Errorf("%.3f of the state was added", share)
	}
	if grew := f.weighs() - before; grew > int64(len(after))/5 {
		t.Errorf("the disk has %d bytes more, for a state of %d", grew, len(after))
	}
	f.holds("aa", after)
	if list := f.List(); len(list) != 1 || list[0].Tokens != 3659 || list[0].Bytes != int64(len(after)) {
		t.Errorf("listed are %+v", list)
	}
}

func TestConversationsShareWhatIsTheSame(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(2000, 1))
	if _, added := f.save("bb", state(2000, 1)); added.Bytes != 0 {
		t.Errorf("the same state under another name added %d bytes", added.Bytes)
	}
	f.Drop("aa", key)
	f.holds("bb", state(2000, 1))
}

func TestAKeyHasItsOwnReplica(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(500, 1))
	other := key
	other.Build = "0.7.1"
	if _, err := f.Reader("aa", other); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a replica of another build: %v", err)
	}
}

func TestWhatIsNoNameOrTooLargeIsRefused(t *testing.T) {
	f := open(t, mib)
	for _, n := range []store.Name{"", "../aa", "AA", "a/b", "xyz", store.Name(strings.Repeat("a", 65))} {
		if _, _, err := f.trySave(n, state(10, 1)); !errors.Is(err, store.ErrName) {
			t.Errorf("%.10q: %v", n, err)
		}
	}
	if _, _, err := f.trySave("aa", state(1000, 1)); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("2 MiB in a store of one: %v", err)
	}
	m, _ := manifestOf(t, state(1000, 1))
	if _, err := f.Begin("aa", m); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("2 MiB come to a store of one: %v", err)
	}
	m.Size = 1 << 60
	if _, err := f.Begin("aa", m); !errors.Is(err, replica.ErrManifest) {
		t.Errorf("a manifest that lies: %v", err)
	}
	if n := f.weighs(); n > 100 {
		t.Errorf("%d bytes are kept of what was refused", n)
	}
}

func TestASaveThatBreaksOffLeavesNothing(t *testing.T) {
	f := open(t, 64*mib)
	old := state(1000, 1)
	f.save("aa", old)
	before := f.weighs()
	ctx, cancel := context.WithCancel(t.Context())
	next := state(9000, 1)
	s, err := replica.Read(&hooked{bytes.NewReader(next), 5 * mib, cancel}, int64(len(next)))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Save(ctx, "aa", key, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	if after := f.weighs(); after != before {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	f.holds("aa", old)
	f.save("aa", next)
	f.holds("aa", next)
}

// hooked calls a function the first time it is read just behind a place: the look at each layer passes most by.
type hooked struct {
	*bytes.Reader
	at   int64
	call func()
}

func (h *hooked) ReadAt(b []byte, at int64) (int, error) {
	if h.call != nil && at >= h.at && len(b) > 1000 {
		h.call()
		h.call = nil
	}
	return h.Reader.ReadAt(b, at)
}

func TestThePredecessorIsReadToItsEndWhileTheSuccessorArrives(t *testing.T) {
	f := open(t, 64*mib)
	old, next := state(1000, 1), state(1500, 2)
	f.save("aa", old)
	r, err := f.Reader("aa", key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, chunks := manifestOf(t, next)
	a, err := f.Begin("aa", m)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range chunks {
		if err := a.Put(i, b); err != nil {
			t.Fatal(err)
		}
		if i == len(chunks)/2 {
			f.holds("aa", old)
		}
	}
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	f.holds("aa", next)
	var got []byte
	for i := range r.Manifest().Chunks {
		b, err := r.Chunk(i, make([]byte, replica.MaxChunk))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, old) {
		t.Error("the predecessor is no longer what it was")
	}
}

func TestWhatNobodyUsesIsDeletedAfterADay(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(1000, 1))
	f.save("bb", state(1000, 2))
	f.clock.add(20 * time.Hour)
	f.Touch("aa", key)
	f.clock.add(5 * time.Hour)
	if _, err := f.Reader("bb", key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what is too old is still given out: %v", err)
	}
	f.reopen()
	if list := f.List(); len(list) != 1 || list[0].Name != "aa" {
		t.Errorf("kept are %+v", list)
	}
	f.holds("aa", state(1000, 1))
}

func TestRunGivesTheDiskBackWhatIsTooOld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{TB: t, clock: &clock{}}
		f.cfg = store.Config{Dir: dir, Budget: 64 * mib, KeepFree: 1, Log: discard}
		f.reopen()
		defer f.Close()
		f.save("aa", state(3000, 1))
		f.save("bb", state(1000, 2))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		time.Sleep(23 * time.Hour)
		f.Touch("bb", key)
		time.Sleep(2 * time.Hour)
		if n := f.weighs(); n > 3*mib {
			t.Errorf("%d bytes are on the disk, for a state of 2 MiB", n)
		}
		f.holds("bb", state(1000, 2))
		time.Sleep(25 * time.Hour)
		if n := f.weighs(); n != 0 {
			t.Errorf("%d bytes are on the disk when all is too old", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(100, 1))
	err := filepath.WalkDir(f.cfg.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := d.Info()
		if err == nil && at.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", path, at.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Reader("aa", key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "state")
	if err := r.Assemble(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if at, err := os.Stat(path); err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("the state's file is %v, %v", at.Mode(), err)
	}
	if err := r.Assemble(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is there: %v", err)
	}
}

func TestWipeLeavesNothing(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(100, 1))
	f.Close()
	if err := store.Wipe(f.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.cfg.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	f.reopen()
}

// Saves, arrivals, readers and evictions at one time, in a store that holds a third of what comes.
func TestManyAtOnceGetWholeReplicasOrNone(t *testing.T) {
	f := open(t, 12*mib)
	names := []store.Name{"0a", "1a", "2a", "3a", "4a", "5a"}
	versions := func(conversation int) [][]byte {
		var all [][]byte
		for turn := range 4 {
			all = append(all, state(500+turn*400, uint64(conversation)))
		}
		return all
	}
	var group sync.WaitGroup
	for i, n := range names {
		all := versions(i)
		group.Go(func() { // the writer of one conversation, by saves or by arrivals
			for turn, b := range all {
				var err error
				if i%2 == 0 {
					_, _, err = f.trySave(n, b)
				} else {
					err = f.arrive(n, b, rand.New(rand.NewPCG(uint64(i), uint64(turn))))
				}
				if err != nil && !errors.Is(err, store.ErrNoRoom) {
					t.Errorf("%s, turn %d: %v", n, turn, err)
				}
			}
		})
		group.Go(func() {
			for range 20 {
				got, err := f.assemble(n)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil || !slices.ContainsFunc(all, func(b []byte) bool { return bytes.Equal(b, got) }) {
					t.Errorf("%s: %v, or bytes that were never kept", n, err)
				}
			}
		})
	}
	group.Go(func() {
		for range 30 {
			f.Tidy(t.Context())
			f.Usage()
			f.Lacks(replica.Manifest{})
		}
	})
	group.Wait()
	f.weighs()
	for _, r := range f.List() {
		if _, err := f.assemble(r.Name); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

// arrive brings a state chunk by chunk, in any order and from several goroutines.
func (f *fixture) arrive(n store.Name, state []byte, r *rand.Rand) error {
	m, chunks := manifestOf(f, state)
	a, err := f.Begin(n, m)
	if err != nil {
		return err
	}
	defer a.Abort()
	lacks := a.Lacks()
	r.Shuffle(len(lacks), func(i, j int) { lacks[i], lacks[j] = lacks[j], lacks[i] })
	var group sync.WaitGroup
	errs := make([]error, 3)
	for g := range errs {
		group.Go(func() {
			for i := g; i < len(lacks) && errs[g] == nil; i += len(errs) {
				errs[g] = a.Put(lacks[i], chunks[lacks[i]])
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return a.Commit()
}
