package mesh_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"viiwork/appliance/mesh"
)

// fill makes a node hold as much as it may tell of.
func fill(r *mesh.Register) {
	for i := range 16 {
		for j := range 20 {
			r.Settle(held(fmt.Sprint("m#", i), fmt.Sprint("s", i, j), laden(fmt.Sprint(i, j), 200)...), -1)
		}
	}
}

// laden are the steps of a prompt with so many messages.
func laden(first string, n int) []string {
	words := []string{"head", first}
	for i := range n {
		words = append(words, fmt.Sprint(i))
	}
	return words
}

// asReplica is one in a store.
func asReplica(number int, words ...string) mesh.Resident {
	r := held("", "", words...)
	r.Replica = fmt.Sprintf("%032x", number)
	return r
}

// TestFullNodeIsBelievedThroughAllItsTurns: to those who hear of it what comes and what makes room for it is one change.
func TestFullNodeIsBelievedThroughAllItsTurns(t *testing.T) {
	from, to := mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
	fill(from)
	telling := mesh.NewTelling(from, to)
	if err := telling.Tell(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		words := laden(fmt.Sprint("new", i), 150+i%100)
		if i%2 == 0 {
			from.Settle(held(fmt.Sprint("m#", i%16), fmt.Sprint("t", i), words...), -1)
		} else {
			from.Store(asReplica(i%150, words...))
		}
		if i%7 == 0 {
			continue // it is told with the next one
		}
		if err := telling.Tell(); err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
	}
	if got, want := printed(mesh.Heard(to, "n02")), printed(mesh.Own(from)); got != want {
		t.Errorf("heard\n%s\nheld\n%s", got, want)
	}
}

// TestMembersAreBelievedThoughTheIndexIsFull: what finds no room in it is not held against who told it.
func TestMembersAreBelievedThoughTheIndexIsFull(t *testing.T) {
	from, to := mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
	fill(from)
	var telling *mesh.Telling
	for i := range mesh.MaxIndex/(mesh.MaxLinks*9/10) + 2 {
		telling = mesh.NewTelling(from, to)
		telling.Member = fmt.Sprint("n", i)
		if err := telling.Tell(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 64 { // each takes the place of another, and grows
		backend, first := fmt.Sprint("m#", i%16), fmt.Sprint("later ", i)
		for n := range 2 {
			from.Settle(held(backend, first, laden(first, 200+i+n)...), -1)
			if err := telling.Tell(); err != nil {
				t.Fatalf("turn %d: %v", i, err)
			}
		}
		if f := to.Find("m", first, nil); !f.Known || f.Home != (mesh.Spot{Node: telling.Member, Backend: backend}) {
			t.Fatalf("turn %d: where it runs is not known: %+v", i, f)
		}
	}
	if got, want := len(mesh.Heard(to, telling.Member)), len(mesh.Own(from)); got != want {
		t.Errorf("%d of %d residents are believed", got, want)
	}
}

// TestHomeIsFoundBesideItsReplicas: they neither draw a conversation to the node that has them nor make a link ambiguous that
// was not.
func TestHomeIsFoundBesideItsReplicas(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	r.Settle(held("m#0", "", "head", "1", "2"), -1)
	r.Store(asReplica(1, "head", "1", "2", "an answer", "that was taken back"))
	mesh.TellOf(t, r, "n02", asReplica(1, "head", "1", "2", "another", "taken back"))
	for _, words := range [][]string{{"head", "1", "2", "3"}, {"head", "1", "2", "an answer", "4"}} {
		if f := r.Find("m", "", chain(words...)); f.Home != spot("m#0") || at(f, spot("m#0")) != 3100 || len(f.Held) != 1 || len(f.Stored) != 2 {
			t.Errorf("%v: %+v", words, f)
		}
	}
}

// TestConversationsAreListedWithTheirReplicas, once for each node that has any.
func TestConversationsAreListedWithTheirReplicas(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	r.Settle(held("m#0", "s", "head", "1"), -1)
	r.Settle(held("m#0", "t", "head", "2"), -1)
	of := func(number int, session string) mesh.Resident {
		s := asReplica(number, "head", "1")
		s.Session = session
		return s
	}
	r.Store(of(1, "s"))
	r.Store(of(2, "s"))
	mesh.TellOf(t, r, "n02", of(1, "s"))
	mesh.TellOf(t, r, "n03", of(3, ""))
	other := of(4, "t")
	other.Model = "another"
	r.Store(other)
	got := map[string][]string{}
	for _, c := range r.Conversations(9) {
		slices.Sort(c.Replicas)
		got[c.Session] = c.Replicas
	}
	if want := map[string][]string{"s": {"", "n02"}, "t": nil}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
