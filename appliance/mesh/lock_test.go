package mesh_test

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// take is a hold that the test wants.
func take(t *testing.T, k *keyholder) (*mesh.Held, string) {
	t.Helper()
	held, note, err := k.lock.Take(t.Context())
	if err != nil {
		t.Fatalf("%s does not get the lock: %v", k.Name, err)
	}
	return held, string(note)
}

func TestTheLockHasOneHolderWhomEverybodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		held, note := take(t, h.nodes[0])
		if note != "" || !held.Fresh() {
			t.Errorf("the first note is %q", note)
		}
		if err := held.Note(t.Context(), []byte("n02 goes")); err != nil {
			t.Fatal(err)
		}
		for _, k := range h.nodes {
			v := k.lock.View()
			if v.Owner != "n01" || v.Name != "node1" || string(v.Note) != "n02 goes" || !k.lock.Obeys("n01", held.Token()) {
				t.Errorf("%s sees %+v", k.Name, v)
			}
			if k.lock.Obeys("n02", held.Token()) || k.lock.Obeys("n01", "another") {
				t.Errorf("%s obeys whom it must not", k.Name)
			}
		}
		_, _, err := h.nodes[1].lock.Take(t.Context())
		var locked *mesh.LockedError
		if !errors.Is(err, mesh.ErrLockHeld) || !errors.As(err, &locked) || locked.Name != "node1" {
			t.Errorf("the second one is told: %v", err)
		}
		held.Free(t.Context())
		if held, note := take(t, h.nodes[1]); note != "n02 goes" {
			t.Errorf("the next one finds %q", note)
		} else {
			held.Free(t.Context())
		}
	})
}

func TestTwoAtOnceOneWins(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t, 4)
			defer h.end()
			won := make([]*mesh.Held, len(h.nodes))
			var both sync.WaitGroup
			for i, k := range h.nodes {
				both.Go(func() {
					held, _, err := k.lock.Take(t.Context())
					if err != nil && !errors.Is(err, mesh.ErrLockHeld) && !strings.Contains(err.Error(), "at the same moment") {
						t.Errorf("%s: %v", k.Name, err)
					}
					won[i] = held
				})
			}
			both.Wait()
			holders := 0
			for i, held := range won {
				if held == nil {
					continue
				}
				holders++
				if err := held.Note(t.Context(), []byte("n02 goes")); err != nil {
					t.Error(err)
				}
				for _, k := range h.nodes { // also who gave the other one its voice at first
					if !k.lock.Obeys(h.nodes[i].ID, held.Token()) {
						t.Errorf("%s does not obey %s", k.Name, h.nodes[i].Name)
					}
				}
				held.Free(t.Context())
			}
			if holders != 1 { // they step back for moments of different lengths, and the first to come back meets nobody
				t.Errorf("%d hold it", holders)
			}
		})
	}
}

func TestALostHoldersWordLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		held, _ := take(t, h.nodes[0])
		_ = held.Note(t.Context(), []byte("n02 goes"))
		h.nodes[0].kill("failed")
		time.Sleep(61 * time.Second)
		if h.nodes[1].lock.Obeys("n01", held.Token()) {
			t.Error("it is obeyed a minute after its last word")
		}
		if v := h.nodes[1].lock.View(); v.Name != "node1" || v.Left != 59*time.Second {
			t.Errorf("a minute after its last word: %+v", v)
		}
		if _, _, err := h.nodes[1].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockHeld) {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(60 * time.Second)
		if v := h.nodes[1].lock.View(); v.Owner != "" || string(v.Note) != "n02 goes" {
			t.Errorf("once it has lapsed: %+v", v)
		}
		next, note := take(t, h.nodes[1])
		if note != "n02 goes" {
			t.Errorf("finds %q", note)
		}
		next.Free(t.Context())
	})
}

// TestWhoCameBackTakesItsLockBack at once: what it was about goes on.
func TestWhoCameBackTakesItsLockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		old, _ := take(t, h.nodes[0])
		_ = old.Note(t.Context(), []byte("n01 itself goes"))
		h.nodes[0].kill("left")
		time.Sleep(5 * time.Second)
		h.nodes[0].again()
		held, note := take(t, h.nodes[0])
		if note != "n01 itself goes" {
			t.Errorf("finds %q", note)
		}
		if err := old.Note(t.Context(), []byte("late")); err == nil {
			t.Error("the hold of the run before is still one")
		}
		held.Free(t.Context())
	})
}

// TestAMembersRestartKeepsItsWord: it may have promised it a second before.
func TestAMembersRestartKeepsItsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		held, _ := take(t, h.nodes[0])
		if err := held.Note(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		for _, k := range h.nodes[1:] {
			k.kill("failed")
			k.again()
		}
		if v := h.nodes[2].lock.View(); v.Owner != "n01" || string(v.Note) != "x" {
			t.Errorf("after its restart: %+v", v)
		}
		h.part(h.nodes[0])
		if _, _, err := h.nodes[1].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockHeld) {
			t.Errorf("two that were started anew give it away: %v", err)
		}
	})
}

func TestAMinorityHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 5)
		defer h.end()
		held, _ := take(t, h.nodes[0])
		h.part(h.nodes[0], h.nodes[1])
		err := held.Note(t.Context(), []byte("y"))
		if !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "2 of 5") || !strings.Contains(err.Error(), "node4: it is away") {
			t.Errorf("the side of two: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if held.Fresh() {
			t.Error("it believes itself a holder")
		}
		next, _ := take(t, h.nodes[3])
		h.part()
		if err := held.Note(t.Context(), []byte("z")); !errors.Is(err, mesh.ErrLockHeld) {
			t.Errorf("the old holder writes again once the network is whole: %v", err)
		}
		next.Free(t.Context())
		held.Free(t.Context())
	})
}

// TestWhoSeesNobodyYetIsNoMajority: a node that has just started knows those it knew before.
func TestWhoSeesNobodyYetIsNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		time.Sleep(15 * time.Second)
		h.nodes[0].kill("failed")
		h.nodes[1].kill("unseen")
		h.nodes[2].kill("unseen")
		h.nodes[0].again()
		if _, _, err := h.nodes[0].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "1 of 3") {
			t.Errorf("alone: %v", err)
		}
	})
}

func TestANoteThatWasMissedIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		h.nodes[2].kill("failed")
		held, _ := take(t, h.nodes[0])
		_ = held.Note(t.Context(), []byte("all is done"))
		held.Free(t.Context())
		told := h.nodes[2].told.Load()
		h.nodes[2].again() // it asks at once
		time.Sleep(5 * time.Minute)
		if v := h.nodes[2].lock.View(); string(v.Note) != "all is done" || v.Owner != "" || h.nodes[2].told.Load() == told {
			t.Errorf("%+v", v)
		}
	})
}

func TestAnOpenMeshHasNoLock(t *testing.T) {
	open := keys(t, mesh.KeyConfig{})
	l := mesh.NewLock(mesh.LockConfig{ID: "n01", Name: "node1", Keys: open, Verifier: mesh.NewVerifier(mesh.VerifierConfig{ID: "n01", Keys: open}),
		Members: func() (a, f, l []mesh.Member) { return }})
	if _, _, err := l.Take(t.Context()); !errors.Is(err, mesh.ErrLockOpen) {
		t.Error(err)
	}
	try := `{"step":"try","term":1,"token":"a","name":"node2"}`
	req := httptest.NewRequest(http.MethodPost, "http://10.0.0.1:8086/v1/lock", strings.NewReader(try))
	mesh.NewSigner(mesh.SignerConfig{ID: "n02", Keys: open}).Sign(req, "n01", sha256.Sum256([]byte(try)))
	answer := httptest.NewRecorder()
	if l.ServeHTTP(answer, req); answer.Code != http.StatusConflict {
		t.Errorf("a voice is asked for: %d %s", answer.Code, answer.Body)
	}
}

func TestAFullDiskGivesNoVoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 2)
		defer h.end()
		h.nodes[1].losesDisk()
		_, _, err := h.nodes[0].lock.Take(t.Context())
		if !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "node2: it cannot write its file") {
			t.Error(err)
		}
		if says := h.nodes[1].lock.Mute(); !strings.Contains(says, "no such file or directory") || strings.Contains(says, h.nodes[1].dir) {
			t.Errorf("it says %q", says)
		}
		if err := os.MkdirAll(h.nodes[1].dir, 0o700); err != nil {
			t.Fatal(err)
		}
		held, _ := take(t, h.nodes[0])
		if says := h.nodes[1].lock.Mute(); says != "" {
			t.Errorf("once there is room it says %q", says)
		}
		held.Free(t.Context())
	})
}

// TestWhoKnowsNothingGivesNoVoiceForAWhile: neither whether somebody holds the lock already, nor whom its voice was given to.
func TestWhoKnowsNothingGivesNoVoiceForAWhile(t *testing.T) {
	for _, file := range []string{"", `{"term":`, `{"term":9007199254740993}`} {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t, 2)
			defer h.end()
			h.nodes[1].kill("failed")
			if h.nodes[1].keep(file); file == "" {
				_ = os.Remove(filepath.Join(h.nodes[1].dir, "meshlock.json"))
			}
			h.nodes[1].again()
			if _, _, err := h.nodes[0].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockMinority) {
				t.Errorf("at once: %v", err)
			}
			time.Sleep(2 * time.Minute)
			held, _ := take(t, h.nodes[0])
			held.Free(t.Context())
			if _, err := os.Stat(filepath.Join(h.nodes[1].dir, "meshlock.json.aside")); (err == nil) != (file != "") {
				t.Errorf("%q is not set aside: %v", file, err)
			}
		})
	}
}

// TestOneThatSaysWrongThingsKeepsNobodyFromTheLock: its own voice is all that is lost.
func TestOneThatSaysWrongThingsKeepsNobodyFromTheLock(t *testing.T) {
	for name, file := range map[string]string{
		"a term near the end of all":     `{"term":9007199254740992,"note":{"term":0,"number":0}}`,
		"a note of a term near the end":  `{"term":9007199254740992,"note":{"term":9007199254740992,"number":1,"text":"eA=="}}`,
		"of a note alone, that":          `{"term":1,"note":{"term":9007199254740991,"number":1,"text":"eA=="}}`,
		"a term that is just too far":    `{"term":1000000,"note":{"term":0,"number":0}}`,
		"one that is not":                `{"term":499999,"note":{"term":0,"number":0}}`,
		"a holder of whom nobody knows":  `{"term":1,"owner":"n09","name":"ghost","token":"a","holds":true,"note":{"term":1,"number":1}}`,
		"its voice is a stranger's, too": `{"term":1,"owner":"n09","name":"ghost","token":"a","note":{"term":0,"number":0}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := buildHall(t, 3)
				h.nodes[2].keep(file)
				h.begin()
				defer h.end()
				held, note := take(t, h.nodes[0])
				if note != "" {
					t.Errorf("finds %q", note)
				}
				if err := held.Note(t.Context(), []byte("n02 goes")); err != nil || !h.nodes[1].lock.Obeys("n01", held.Token()) {
					t.Errorf("it does not lead: %v", err)
				}
				h.nodes[0].kill("failed")
				h.nodes[0].again()
				held, note = take(t, h.nodes[0]) // it is its own holder still
				if note != "n02 goes" {
					t.Errorf("finds %q after its restart", note)
				}
				held.Free(t.Context())
			})
		})
	}
}

// TestWhoSleptLongerThanItsWordTakesNoNoteBack: another one has led meanwhile, and what it wrote counts.
func TestWhoSleptLongerThanItsWordTakesNoNoteBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		old, _ := take(t, h.nodes[0])
		if err := old.Note(t.Context(), []byte("it goes on")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		next, _ := take(t, h.nodes[1])
		if err := next.Note(t.Context(), []byte("it was stopped")); err != nil {
			t.Fatal(err)
		}
		next.Free(t.Context())
		if err := old.Note(t.Context(), []byte("it goes on and on")); !errors.Is(err, mesh.ErrLockMinority) || old.Fresh() {
			t.Errorf("it writes what was known before: %v", err)
		}
		old.Free(t.Context())
		held, note := take(t, h.nodes[0])
		if note != "it was stopped" {
			t.Errorf("what counts is %q", note)
		}
		held.Free(t.Context())
	})
}

// FuzzLockMessage: whatever a member says, this node's own state stays one that it can read again, and its answer one that
// others take.
func FuzzLockMessage(f *testing.F) {
	for _, s := range []string{`{"step":"ask"}`, `{"step":"try","term":1,"token":"a","name":"x"}`,
		`{"step":"note","term":1,"token":"a","name":"x","note":{"term":1,"number":1,"text":"eA=="}}`, `{"step":"free","token":"a"}`} {
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, from := range []string{"n02", "n03"} {
			if err := mesh.LockSays(t.TempDir(), from, first, second); err != nil {
				t.Error(err)
			}
		}
	})
}
