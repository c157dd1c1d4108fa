package mesh_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// stored is a replica of a conversation, each link a thousand tokens.
func stored(nr int, session string, words ...string) mesh.Resident {
	r := held("", session, words...)
	r.Replica = fmt.Sprintf("%032x", nr)
	return r
}

// inStore is how many tokens of the prompt a node has in its store.
func inStore(f mesh.Found, node string) int {
	for _, h := range f.Stored {
		if h.Node == node && h.Backend == "" {
			return h.Tokens
		}
	}
	return 0
}

// TestAReplicaIsNeitherAHomeNorAResident: it can be fetched, and that is all.
func TestAReplicaIsNeitherAHomeNorAResident(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	r.Store(stored(1, "s", "head", "1", "2"))
	mesh.TellOf(t, r, "n02", stored(2, "s", "head", "1", "2", "3"))
	for _, session := range []string{"s", ""} {
		f := r.Find("m", session, chain("head", "1", "2", "3", "4"))
		if f.Known || len(f.Held) != 0 {
			t.Errorf("session %q: replicas are a home: %+v", session, f)
		}
		if inStore(f, "") != 3100 || inStore(f, "n02") != 4100 || f.Matched != 4 || f.Stored[0].Link != 3 {
			t.Errorf("session %q: %+v", session, f)
		}
	}
	if n := r.Residents(""); n != 0 {
		t.Errorf("%d conversations live in the store", n)
	}
	if all := r.Conversations(10); len(all) != 0 {
		t.Errorf("replicas are listed as conversations at home: %+v", all)
	}
	r.Settle(held("m#0", "s", "head", "1"), -1)
	if f := r.Find("m", "s", chain("head", "1", "2", "3", "4")); f.Home != spot("m#0") || at(f, spot("m#0")) != 2100 {
		t.Errorf("the home, which holds less: %+v", f)
	}
}

func TestAReplicaTakesTheOlderOnesPlaceAndGoes(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	prompt := chain("head", "1", "2", "3", "4")
	r.Store(stored(1, "s", "head", "1"))
	r.Store(stored(1, "s", "head", "1", "2", "3"))
	if f := r.Find("m", "s", prompt); len(f.Stored) != 1 || inStore(f, "") != 4100 || len(mesh.Own(r)) != 1 {
		t.Errorf("after its successor: %+v", f)
	}
	r.Unstore(fmt.Sprintf("%032x", 2))
	r.Unstore(fmt.Sprintf("%032x", 1))
	r.Unstore(fmt.Sprintf("%032x", 1))
	if links, sites := mesh.Indexed(r); links+sites+len(mesh.Own(r)) != 0 {
		t.Errorf("after it is gone %d links of %d sites are there", links, sites)
	}
}

// TestImpossibleReplicasAreNotStored: a name is what members would ask for.
func TestImpossibleReplicasAreNotStored(t *testing.T) {
	for name, change := range map[string]func(*mesh.Resident){
		"no name":                 func(s *mesh.Resident) { s.Replica = "" },
		"a path":                  func(s *mesh.Resident) { s.Replica = "../../../../../../../etc/passwd0" },
		"a short name":            func(s *mesh.Resident) { s.Replica = s.Replica[1:] },
		"capitals":                func(s *mesh.Resident) { s.Replica = strings.Repeat("A", 32) },
		"also in an engine":       func(s *mesh.Resident) { s.Backend = "m#0" },
		"no model":                func(s *mesh.Resident) { s.Model = "" },
		"more marks than links":   func(s *mesh.Resident) { s.Marks = append(s.Marks, 2050) },
		"fewer tokens than marks": func(s *mesh.Resident) { s.Tokens = 1 },
	} {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		s := stored(1, "s", "head", "1")
		change(&s)
		if r.Store(s); len(mesh.Own(r)) != 0 {
			t.Errorf("%s: %+v is told to members", name, mesh.Own(r)[0])
		}
	}
}

// TestReplicasToldAreBounded: the newest ones, and of each the end, which is what the conversation goes on behind.
func TestReplicasToldAreBounded(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	words := func(i int) (all []string) {
		for j := range 40 {
			all = append(all, fmt.Sprint("c", i, " ", j))
		}
		return all
	}
	const more = 20
	for i := range mesh.MaxStored + more {
		r.Store(stored(i, fmt.Sprint("s", i), words(i)...))
	}
	all := mesh.Own(r)
	if len(all) != mesh.MaxStored {
		t.Errorf("%d replicas are told of", len(all))
	}
	for _, s := range all {
		if len(s.Chain) != mesh.KeptStored || len(s.Marks) != mesh.KeptStored {
			t.Fatalf("%d links and %d marks of one", len(s.Chain), len(s.Marks))
		}
	}
	for i, want := range map[int]int{0: 0, more - 1: 0, more: 40100, mesh.MaxStored + more - 1: 40100} {
		if got := inStore(r.Find("m", "", chain(append(words(i), "next")...)), ""); got != want {
			t.Errorf("of conversation %d it has %d tokens, want %d", i, got, want)
		}
	}
}

// TestAFullStoreBesideFullEnginesIsBelieved: a follower that hears of more than any node has believes none of it.
func TestAFullStoreBesideFullEnginesIsBelieved(t *testing.T) {
	from, to := mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
	long := func(name string, i, n int) (all []string) {
		for j := range n {
			all = append(all, fmt.Sprint(name, i, " ", j))
		}
		return all
	}
	for i := range 200 {
		from.Settle(held(fmt.Sprint("m#", i%20), fmt.Sprint("s", i), long("h", i, 250)...), -1)
	}
	telling := mesh.NewTelling(from, to)
	for i := range mesh.MaxStored {
		from.Store(stored(i, fmt.Sprint("s", i), long("r", i, 16)...))
	}
	if err := telling.Tell(); err != nil {
		t.Fatal(err)
	}
	links, replicas := 0, 0
	for _, s := range mesh.Heard(to, "n02") {
		links += len(s.Chain)
		if s.Replica != "" {
			replicas++
		}
	}
	if links > mesh.MaxLinks || replicas != mesh.MaxStored {
		t.Errorf("%d links, %d replicas", links, replicas)
	}
}

// TestMembersLearnWhereReplicasLie and forget them once they are gone, or the member is.
func TestMembersLearnWhereReplicasLie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, func(a, b *node) {
			a.known, b.known = mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
		})
		time.Sleep(10 * time.Second) // who met the other one while it started is content with its capacity for a while
		there := func() int { return inStore(a.known.Find("m", "s", chain("head", "1", "2", "3")), b.ID) }
		tell := func() { b.publisher.Changed(); time.Sleep(100 * time.Millisecond) }
		b.known.Store(stored(1, "s", "head", "1"))
		if tell(); there() != 2100 {
			t.Fatalf("stored there, known here: %d tokens", there())
		}
		b.known.Store(stored(1, "s", "head", "1", "2"))
		if tell(); there() != 3100 {
			t.Errorf("its successor: %d tokens", there())
		}
		if lone := a.known.Lone(); len(lone) != 1 || lone[0].Node != b.ID || lone[0].Tokens != 3100 {
			t.Errorf("one copy: %+v", lone)
		}
		a.known.Store(stored(1, "s", "head", "1", "2"))
		if lone := a.known.Lone(); len(lone) != 0 {
			t.Errorf("two copies: %+v", lone)
		}
		b.known.Unstore(fmt.Sprintf("%032x", 1))
		if tell(); there() != 0 {
			t.Errorf("gone there, believed here: %d tokens", there())
		}
		b.known.Store(stored(2, "s", "head", "1", "2"))
		tell()
		if a.known.Leave(b.ID); there() != 0 {
			t.Errorf("of a member that left: %d tokens", there())
		}
	})
}

// TestALoneReplicaIsTheLongest: who has an earlier state of it has no second copy.
func TestALoneReplicaIsTheLongest(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	mesh.TellOf(t, r, "n02", stored(1, "s", "head", "1", "2"))
	r.Store(stored(1, "s", "head", "1"))
	mesh.TellOf(t, r, "n03", stored(2, "u", "head", "x"))
	mesh.TellOf(t, r, "n04", stored(2, "u", "head", "x"))
	mesh.TellOf(t, r, "n03", stored(3, "v"))
	r.Store(stored(4, "w", "head", "w"))
	if lone := r.Lone(); len(lone) != 1 || lone[0].Node != "n02" || lone[0].Session != "s" {
		t.Errorf("%+v", lone)
	}
}

// TestWhatWouldGoWithThisNodeIsCounted: what nobody else has, or has not as far.
func TestWhatWouldGoWithThisNodeIsCounted(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	if alone, all := r.Own(); alone != 0 || all != 0 {
		t.Errorf("%d of %d", alone, all)
	}
	r.Store(stored(1, "a", "head", "1", "2"))
	r.Store(stored(2, "b", "head", "3"))
	r.Store(stored(3, "c", "head", "4", "5"))
	mesh.TellOf(t, r, "n02", stored(1, "a", "head", "1", "2"))
	mesh.TellOf(t, r, "n02", stored(3, "c", "head", "4"))
	mesh.TellOf(t, r, "n02", stored(4, "d", "head", "6"))
	if alone, all := r.Own(); alone != 2 || all != 3 {
		t.Errorf("%d of %d", alone, all)
	}
}

func TestImpossibleReplicasOfMembersAreNotBelieved(t *testing.T) {
	good := `{"residents":{"begin":true,"held":[{"id":1,"model":"m","replica":"0123456789abcdef0123456789abcdef","links":"AAAAAAAAAAAAAAAAAAAAAA","marks":[5],"tokens":9,"idle_ms":1}]}}`
	if _, err := mesh.HearLines(mesh.NewRegister(mesh.RegisterConfig{}), [][]byte{[]byte(good)}); err != nil {
		t.Fatal(err)
	}
	const name = `"0123456789abcdef0123456789abcdef"`
	for what, change := range map[string][2]string{
		"in an engine, too":   {`"model":"m"`, `"model":"m","backend":"m#0"`},
		"nowhere":             {`"replica":` + name + `,`, ``},
		"an empty name":       {name, `""`},
		"a path":              {name, `"../../../../../../../etc/passwd0"`},
		"a short name":        {name, `"0123456789abcdef"`},
		"a long name":         {name, `"` + strings.Repeat("a", 33) + `"`},
		"capitals":            {name, `"` + strings.Repeat("A", 32) + `"`},
		"codes of a terminal": {name, `"\u001b[31m6789abcdef0123456789abcdef"`},
		"huge tokens":         {`"tokens":9`, `"tokens":1152921504606846976`},
		"marks past its end":  {`[5]`, `[10]`},
	} {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatal(what, "changes nothing")
		}
		if _, err := mesh.HearLines(r, [][]byte{[]byte(bad)}); err == nil || len(mesh.Heard(r, "n02")) != 0 {
			t.Errorf("%s: believed", what)
		}
	}
}

// TestImpossibleCostsOfAMoveAreNotBelieved, in a whole report or in a change of one.
func TestImpossibleCostsOfAMoveAreNotBelieved(t *testing.T) {
	good := mesh.KV{Kind: "k", TokenBytes: 65536, SaveBPS: 2e9, ImportBPS: 1e9, ImportStart: 0.5, SendBPS: 1e8, SendingMS: 20}
	was := anyReport(rand.New(rand.NewPCG(3, 3)), 1)
	was.Models[0].KV = &good
	if _, err := mesh.ReadLine(mesh.Encode(was, nil), nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*mesh.KV){
		"a kind to draw with":     func(k *mesh.KV) { k.Kind = "k\x1b[2J" },
		"an endless kind":         func(k *mesh.KV) { k.Kind = strings.Repeat("k", 201) },
		"less than no bytes":      func(k *mesh.KV) { k.TokenBytes = -1 },
		"2^60 bytes":              func(k *mesh.KV) { k.TokenBytes = 1 << 60 },
		"saves before it begins":  func(k *mesh.KV) { k.SaveBPS = -1e9 },
		"saves at once":           func(k *mesh.KV) { k.SaveBPS = math.MaxFloat64 },
		"imports backwards":       func(k *mesh.KV) { k.ImportBPS = -1 },
		"imports at once":         func(k *mesh.KV) { k.ImportBPS = 1e14 },
		"is done before":          func(k *mesh.KV) { k.ImportStart = -1 },
		"takes for ever":          func(k *mesh.KV) { k.ImportStart = 1e9 },
		"sends backwards":         func(k *mesh.KV) { k.SendBPS = -5 },
		"sends at once":           func(k *mesh.KV) { k.SendBPS = 1e300 },
		"has sent before":         func(k *mesh.KV) { k.SendingMS = -1 },
		"has to send for decades": func(k *mesh.KV) { k.SendingMS = math.MaxInt64 },
	} {
		bad := good
		change(&bad)
		now := anyReport(rand.New(rand.NewPCG(3, 3)), 2)
		now.Draining = was.Draining
		now.Models[0].KV = &bad
		if _, err := mesh.ReadLine(mesh.Encode(now, nil), nil); err == nil {
			t.Errorf("%s: a report of it is believed", name)
		}
		c, ok := mesh.Diff(was, now)
		if !ok {
			t.Fatalf("%s: no change of figures", name)
		}
		if _, err := mesh.ReadLine(mesh.Encode(nil, c), was); err == nil {
			t.Errorf("%s: a change to it is believed", name)
		}
	}
}
