package mesh_test

import (
	"strings"
	"testing"

	"viiwork/appliance/mesh"
)

// TestStateIsMovedOnlyForWhatIsMostlyIt: many begin alike, and a state is moved as a whole.
func TestStateIsMovedOnlyForWhatIsMostlyIt(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	ann := held("", "s", "head", "tools", "ann 1", "answer", "ann 2")
	ann.Replica = strings.Repeat("a", 32)
	r.Store(ann)
	for _, c := range []struct {
		name   string
		prompt []mesh.Link
		want   mesh.Holding // without tokens: none
	}{
		{"its next turn", chain("head", "tools", "ann 1", "answer", "ann 2", "answer", "ann 3"), mesh.Holding{Tokens: 5100, Link: 4}},
		{"another conversation with the same head", chain("head", "tools", "bob 1"), mesh.Holding{}},
		{"the same one, its last turn written anew", chain("head", "tools", "ann 1", "answer", "ann 2 again"), mesh.Holding{Tokens: 4000, Link: 3}},
	} {
		var got mesh.Holding
		if f := r.Find("m", "", c.prompt); len(f.Stored) > 0 {
			got = f.Stored[0]
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	head := held("", "t", "head", "tools")
	head.Replica = strings.Repeat("b", 32)
	r.Store(head)
	if f := r.Find("m", "u", chain("head", "tools", "bob 1")); len(f.Stored) != 1 || f.Stored[0].Link != 1 {
		t.Errorf("where a short one ends: %+v", f.Stored)
	}
}

// TestEngineTellsWhereAConversationEnds, since that alone is what its node can save for others.
func TestEngineTellsWhereAConversationEnds(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	r.Settle(held("m#0", "s", "head", "tools", "ann 1"), -1)
	for _, c := range []struct {
		prompt []mesh.Link
		link   int
	}{
		{chain("head", "tools", "ann 1", "answer", "ann 2"), 2},
		{chain("head", "tools", "bob 1"), -1},
	} {
		if f := r.Find("m", "", c.prompt); len(f.Held) != 1 || f.Held[0].Link != c.link {
			t.Errorf("%+v, want link %d", f.Held, c.link)
		}
	}
}
