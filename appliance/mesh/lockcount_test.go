package mesh_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// TestWithoutAMajoritysVoicesNothingIsWritten: among those who gave theirs nobody may know the last note, and what is written
// without it would cover it.
func TestWithoutAMajoritysVoicesNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 5)
		defer h.end()
		held, _ := take(t, h.nodes[0])
		_ = held.Note(t.Context(), []byte("first"))
		h.losing(func(to, step string) bool { return step == "note" && to >= "n04" })
		if err := held.Note(t.Context(), []byte("second")); err != nil {
			t.Fatal(err)
		}
		held.Free(t.Context())
		h.losing(func(to, step string) bool { return step == "try" && to < "n04" })
		if _, note, err := h.nodes[4].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockMinority) {
			t.Errorf("two of five make a holder, who finds %q: %v", note, err)
		}
		if v := h.nodes[0].lock.View(); string(v.Note) != "second" {
			t.Errorf("what counts is %q", v.Note)
		}
	})
}

// TestWhoIsCutOffCountsNothing, however long it tries: else a holder would be far behind it once it is back.
func TestWhoIsCutOffCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		h.part(h.nodes[2])
		for range 100 {
			if _, _, err := h.nodes[2].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockMinority) {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		h.part()
		if term := h.nodes[0].term(h.nodes[2]); term != 0 {
			t.Errorf("it stands at %d", term)
		}
	})
}

// TestAFetchedNoteStandsUntilALaterOne: its term may be ahead of that of who fetched it. An older holder's word does not cover
// it, the next holder's does.
func TestAFetchedNoteStandsUntilALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := buildHall(t, 3)
		fetched := h.nodes[1]
		fetched.keep(`{"term":2,"note":{"term":5,"number":1,"text":"eA=="}}`)
		h.begin()
		defer h.end()
		older := `{"step":"note","term":3,"token":"a","name":"node3","note":{"term":3,"number":1,"text":"eQ=="}}`
		if _, text := h.nodes[2].say(fetched, older); !strings.Contains(text, `"ok":true`) || string(fetched.lock.View().Note) != "x" {
			t.Errorf("%s; it knows %q", text, fetched.lock.View().Note)
		}
		h.nodes[2].say(fetched, `{"step":"free","token":"a"}`)
		held, note := take(t, h.nodes[0])
		if err := held.Note(t.Context(), []byte("z")); err != nil || note != "x" || string(fetched.lock.View().Note) != "z" {
			t.Errorf("the next holder finds %q, and what it writes is %q: %v", note, fetched.lock.View().Note, err)
		}
		held.Free(t.Context())
	})
}

// TestWhoMissedTheBeginningComesAlong: it fetches the note, and obeys once it has heard of the holder, who need not count on
// for that.
func TestWhoMissedTheBeginningComesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		h.losing(func(to, step string) bool { return to == "n03" && (step == "try" || step == "note") })
		held, _ := take(t, h.nodes[0])
		for range 10 {
			if err := held.Note(t.Context(), []byte("n02 goes")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
		}
		if v := h.nodes[2].lock.View(); string(v.Note) != "n02 goes" || v.Owner != "" {
			t.Errorf("it has fetched %+v", v)
		}
		h.losing(nil)
		if err := held.Note(t.Context(), []byte("n03 goes")); err != nil || !h.nodes[2].lock.Obeys("n01", held.Token()) {
			t.Errorf("it does not come along: %v", err)
		}
		if term := h.nodes[0].term(h.nodes[2]); term != 1 {
			t.Errorf("it stands at %d", term)
		}
		held.Free(t.Context())
	})
}

// TestAHolderCountsOnToOneThatIsAhead by some tries that came to nothing. One that is far ahead is broken, and raises nobody.
func TestAHolderCountsOnToOneThatIsAhead(t *testing.T) {
	for ahead, with := range map[int]bool{30: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			h := buildHall(t, 3)
			h.nodes[2].keep(fmt.Sprintf(`{"term":%d,"note":{"term":0,"number":0}}`, ahead))
			h.begin()
			defer h.end()
			h.losing(func(to, step string) bool { return to == "n03" && step == "ask" })
			held, _ := take(t, h.nodes[0])
			if err := held.Note(t.Context(), []byte("n03 goes")); err != nil || h.nodes[2].lock.Obeys("n01", held.Token()) != with {
				t.Errorf("%d ahead: obeyed %v, %v", ahead, !with, err)
			}
			if term := h.nodes[0].term(h.nodes[1]); (term == 1) == with {
				t.Errorf("%d ahead: the others stand at %d", ahead, term)
			}
			held.Free(t.Context())
		})
	}
}
