package mesh_test

import (
	"fmt"
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
		from.Settle(held(fmt.Sprint("m#", i%16), fmt.Sprint("t", i), words...), -1)
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
