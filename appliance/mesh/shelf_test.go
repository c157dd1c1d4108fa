package mesh_test

import (
	"fmt"
	"testing"

	"viiwork/appliance/mesh"
)

// TestTwoThatBeganAlikeAreBothHeld: without a session they may be two agents with the same task, and the same first answer.
func TestTwoThatBeganAlikeAreBothHeld(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	ann, bob := []string{"head", "task", "answer", "ann 1"}, []string{"head", "task", "answer", "bob 1"}
	r.Settle(held("m#0", "", ann...), -1)
	r.Settle(held("m#0", "", bob...), -1)
	r.Settle(held("m#1", "", "head", "task"), -1)
	for _, words := range [][]string{ann, bob} {
		if f := r.Find("m", "", chain(append(words, "answer 2", "more")...)); f.Home != spot("m#0") || !f.ByPrefix || at(f, spot("m#0")) != 4100 {
			t.Errorf("%v: %+v", words, f)
		}
	}
	if n := r.Residents("m#0"); n != 2 {
		t.Errorf("%d live there", n)
	}
}

// TestWhatHasLostItsSlotIsNotHeld by an engine that keeps nothing beside them.
func TestWhatHasLostItsSlotIsNotHeld(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	for _, who := range []string{"ann", "bob", "cy"} {
		r.Settle(held("m#0", who, "head", who+" 1", who+" 2"), -1)
		r.Settle(held("m#1", who, "head", who+" 1", who+" 2"), -1)
		r.Slots("m#0", 2)
	}
	if f := r.Find("m", "ann", chain("head", "ann 1", "ann 2", "ann 3")); at(f, spot("m#0")) > 1000 || at(f, spot("m#1")) != 3100 {
		t.Errorf("who was there first: %+v", f)
	}
	if f := r.Find("m", "bob", chain("head", "bob 1", "bob 2", "bob 3")); at(f, spot("m#0")) != 3100 {
		t.Errorf("who came after: %+v", f)
	}
	if n := r.Residents("m#0"); n != 2 {
		t.Errorf("%d live in two slots", n)
	}
}

// TestWhatIsAskedAgainDisprovesNothing: of a short question with a long answer the engine has the question alone when it is asked
// once more, which says nothing of the conversations that were there before.
func TestWhatIsAskedAgainDisprovesNothing(t *testing.T) {
	for _, words := range [][]string{{"question"}, {"head", "question"}} {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		r.Settle(held("m#0", "ann", "head", "ann 1", "ann 2"), -1)
		asked := held("m#0", "", words...)
		for i := range asked.Marks {
			asked.Marks[i] = 10 * (i + 1)
		}
		for range 3 {
			r.Settle(asked, 20)
		}
		if f := r.Find("m", "ann", chain("head", "ann 1", "ann 2", "ann 3")); at(f, spot("m#0")) != 3100 {
			t.Errorf("after %v: %+v", words, f)
		}
	}
}

// TestWhatIsGoneTakesTheOlderWithIt: an engine drops what was unused for longest.
func TestWhatIsGoneTakesTheOlderWithIt(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	for i := range 8 {
		s := fmt.Sprint("s", i)
		r.Settle(held("m#0", s, "head", s, "1"), -1)
	}
	r.Settle(held("m#0", "s3", "head", "s3", "1", "2"), 1000)
	for i := range 8 {
		s := fmt.Sprint("s", i)
		want := 3100
		switch {
		case i < 3, i == 4: // it had room for four before, so the oldest of these has made room for the new one
			want = 1000
		case i == 3:
			want = 4100
		}
		if got := at(r.Find("m", "", chain("head", s, "1", "2", "3")), spot("m#0")); got != want {
			t.Errorf("%s: %d tokens believed to be held, want %d", s, got, want)
		}
	}
	for i := range 8 { // the room that was learned is kept to
		s := fmt.Sprint("t", i)
		r.Settle(held("m#0", s, "head", s), -1)
	}
	if n := r.Residents("m#0"); n != 4 {
		t.Errorf("%d residents believed where four were there", n)
	}
}
