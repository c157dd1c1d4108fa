package mesh_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// begun is when tests of aliases happen, if it matters.
var begun = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// table is what a node of that id keeps, in memory. Its clock is now's.
func table(id string, now *time.Time) *mesh.Aliases {
	a := mesh.NewAliases(mesh.AliasesConfig{Now: func() time.Time { return *now }})
	a.Load()
	a.Join(id)
	return a
}

// anyAlias is one of few, so that they meet.
func anyAlias(r *rand.Rand) mesh.Alias {
	return mesh.Alias{
		Name: fmt.Sprint("a", r.IntN(3)), Target: fmt.Sprint("m", r.IntN(3)), Prev: []string{"", "m7"}[r.IntN(2)],
		Version: uint64(r.IntN(3)), Node: fmt.Sprint("n", r.IntN(3)), Deleted: r.IntN(3) == 0,
		At: begun.Add(-time.Duration(r.IntN(3)) * time.Hour).UnixMilli(),
	}
}

// TestAliasesMergeToTheSameInAnyOrder: in any order, any grouping and however often.
func TestAliasesMergeToTheSameInAnyOrder(t *testing.T) {
	now := begun
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []mesh.Alias
		for range 1 + r.IntN(12) {
			all = append(all, anyAlias(r))
		}
		whole := table("x", &now)
		whole.Merge(all)
		single, grouped := table("x", &now), table("x", &now)
		for _, i := range r.Perm(len(all)) {
			single.Merge(all[i : i+1])
		}
		cut := r.IntN(len(all))
		left, right := table("x", &now), table("x", &now)
		left.Merge(all[:cut])
		right.Merge(all[cut:])
		grouped.Merge(right.All())
		grouped.Merge(left.All())
		for name, other := range map[string]*mesh.Aliases{"one by one": single, "in groups": grouped} {
			if a, b := whole.All(), other.All(); fmt.Sprint(a) != fmt.Sprint(b) || whole.Digest() != other.Digest() {
				t.Fatalf("seed %d, %s:\n%v\n%v", seed, name, a, b)
			}
		}
		if gained, more := whole.Merge(single.All()); gained || more {
			t.Fatalf("seed %d: what is known was news (%v, %v)", seed, gained, more)
		}
	}
}

func TestLaterWritesWin(t *testing.T) {
	now := begun
	a, b := table("n1", &now), table("n2", &now)
	must(t)(a.Set("coder", "old"))
	b.Merge(a.All())
	must(t)(b.Set("coder", "new"))
	a.Merge(b.All())
	if a.Targets()["coder"] != "new" {
		t.Errorf("%v", a.Targets())
	}
	must(t)(a.Remove("coder"))
	if gained, more := b.Merge(a.All()); !gained || more || len(b.Targets()) != 0 {
		t.Errorf("gained %v, more %v: %v", gained, more, b.Targets())
	}
	if gained, more := a.Merge(nil); gained || !more {
		t.Errorf("against nothing: gained %v, more %v", gained, more)
	}
}

func must(t *testing.T) func(mesh.Alias, error) mesh.Alias {
	return func(e mesh.Alias, err error) mesh.Alias {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// TestRemovedAliasesAreRememberedForThirtyDays, and no longer because somebody's clock was wrong.
func TestRemovedAliasesAreRememberedForThirtyDays(t *testing.T) {
	now := begun
	a, away := table("n1", &now), table("n2", &now)
	must(t)(a.Set("coder", "m"))
	away.Merge(a.All())
	must(t)(a.Remove("coder"))
	a.Merge([]mesh.Alias{{Name: "future", Target: "m", Version: 1, Node: "n3", Deleted: true, At: begun.AddDate(50, 0, 0).UnixMilli()}})
	now = begun.Add(mesh.KeepRemoved - time.Second)
	a.Purge()
	if n := len(a.All()); n != 2 {
		t.Fatalf("%d are remembered after less than 30 days", n)
	}
	if a.Merge(away.All()); len(a.Targets()) != 0 {
		t.Error("a node that was away brought a removed alias back")
	}
	gone := a.All()
	now = begun.Add(mesh.KeepRemoved)
	a.Purge()
	if n := len(a.All()); n != 0 {
		t.Errorf("%d are remembered after 30 days", n)
	}
	if gained, _ := a.Merge(gone); gained {
		t.Error("what was forgotten came back from another node")
	}
}

// TestNoVersionHoldsANameForEver: the highest there could be is not believed, and the highest that is believed is outdone
// by the next who sets the name.
func TestNoVersionHoldsANameForEver(t *testing.T) {
	now := begun
	a, b := table("n1", &now), table("n2", &now)
	must(t)(a.Set("coder", "mine"))
	claim := func(version uint64) []mesh.Alias {
		return []mesh.Alias{{Name: "coder", Target: "theirs", Version: version, Node: "zzz", At: now.UnixMilli()}}
	}
	for _, version := range []uint64{math.MaxUint64, math.MaxUint64 - 1, math.MaxInt64, 1 << 53, uint64(begun.Add(time.Hour).UnixMilli())} {
		if gained, _ := a.Merge(claim(version)); gained {
			t.Fatalf("version %d was believed", version)
		}
	}
	for version := uint64(1); version < 1<<62; version *= 2 {
		a.Merge(claim(version))
		b.Merge(claim(version))
	}
	highest := uint64(begun.Add(5 * time.Minute).UnixMilli())
	a.Merge(claim(highest))
	b.Merge(claim(highest))
	if a.Targets()["coder"] != "theirs" {
		t.Fatal("the test's own claim was not believed: it shows nothing")
	}
	must(t)(a.Set("coder", "mine"))
	now = now.Add(time.Millisecond)
	b.Merge(a.All())
	if b.Targets()["coder"] != "mine" {
		t.Errorf("the name is held: %v", b.All())
	}
}

// hostile is a table of n aliases.
func hostile(n int, change func(i int, e *mesh.Alias)) (list []mesh.Alias) {
	for i := range n {
		e := mesh.Alias{Name: fmt.Sprint("h", i), Target: "m", Version: 1, Node: "zz", At: begun.UnixMilli()}
		if change != nil {
			change(i, &e)
		}
		list = append(list, e)
	}
	return list
}

func document(t testing.TB, list []mesh.Alias) []byte {
	data, err := json.Marshal(map[string]any{"aliases": list})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAliasesAreBounded: by what people make, by what a member says, and by bytes. What was there stays.
func TestAliasesAreBounded(t *testing.T) {
	now := begun
	a := table("n1", &now)
	a.Merge(hostile(mesh.MaxLivingAliases, func(i int, e *mesh.Alias) { e.Name = fmt.Sprint("own", i) }))
	if _, err := a.Set("one-more", "m"); err != mesh.ErrAliasesFull {
		t.Errorf("one beyond the bound: %v", err)
	}
	must(t)(a.Set("own1", "other")) // which makes none more
	must(t)(a.Remove("own2"))
	must(t)(a.Set("one-more", "m"))

	if _, err := mesh.ReadAliases(bytes.NewReader(document(t, hostile(10000, nil)))); err == nil {
		t.Error("10,000 were read")
	}
	long := strings.Repeat("x", 190)
	huge := hostile(4000, func(i int, e *mesh.Alias) { e.Name, e.Target, e.Prev = fmt.Sprint(long, i), long, long })
	if _, err := mesh.ReadAliases(bytes.NewReader(document(t, huge))); err == nil {
		t.Error("more than a MiB was read")
	}
	for name, list := range map[string][]mesh.Alias{
		"many": hostile(mesh.MaxAliases, nil), "long": huge,
		"removed": hostile(mesh.MaxAliases, func(_ int, e *mesh.Alias) { e.Deleted = true }),
	} {
		a.Merge(list)
		if n, size := len(a.All()), len(a.Document()); n > mesh.MaxAliases || size > mesh.MaxAliasBytes {
			t.Errorf("%s: %d entries, %d bytes", name, n, size)
		}
		for i := range mesh.MaxLivingAliases {
			if name := fmt.Sprint("own", i); i != 2 && a.Targets()[name] == "" {
				t.Fatalf("%s is gone", name)
			}
		}
	}
}

// TestOldRemovedAliasesMakeRoom, so that a table full of them takes new names.
func TestOldRemovedAliasesMakeRoom(t *testing.T) {
	now := begun
	a := table("n1", &now)
	a.Merge(hostile(mesh.MaxAliases, func(i int, e *mesh.Alias) {
		e.Deleted, e.At = true, begun.Add(time.Duration(-i)*time.Second).UnixMilli()
	}))
	must(t)(a.Set("coder", "m"))
	if n := len(a.All()); n != mesh.MaxAliases || a.Targets()["coder"] != "m" {
		t.Errorf("%d entries, %v", n, a.Targets())
	}
	for _, e := range a.All() {
		if e.Name == fmt.Sprint("h", mesh.MaxAliases-1) {
			t.Error("the oldest is still remembered")
		}
	}
}

var strangeNames = []string{
	"", " ", "a b", "-a", ".a", "/a", "<b>x</b>", "a<script>", "a\"b", "a'b", "a\nb", "a\x1b[31m", "ä", "a\u202eb", "a?b", "a#b", "a%2Fb",
	"a\\b", "{a}", strings.Repeat("a", 201), "a\x00",
}

// TestStrangeNamesAreRefused, of an owner and of a member.
func TestStrangeNamesAreRefused(t *testing.T) {
	now := begun
	a := table("n1", &now)
	for _, name := range strangeNames {
		if _, err := a.Set(name, "m"); err != mesh.ErrAliasName {
			t.Errorf("%q was set: %v", name, err)
		}
		if gained, _ := a.Merge([]mesh.Alias{{Name: name, Target: "m", Version: 1, Node: "n2", At: begun.UnixMilli()}}); gained {
			t.Errorf("%q was taken from a member", name)
		}
	}
	for _, e := range []mesh.Alias{
		{Target: ""}, {Target: "a\nb"}, {Target: " m"}, {Target: "coder"}, {Target: strings.Repeat("m", 201)},
		{Target: "m", Prev: "a\x1bb"}, {Target: "m", Node: "no id"}, {Target: "m", Node: "-"}, {Target: "m", Node: strings.Repeat("n", 129)},
	} {
		if e.Node == "" {
			e.Node = "n2"
		}
		if e.Node == "-" {
			e.Node = ""
		}
		e.Name, e.Version = "coder", 1
		if gained, _ := a.Merge([]mesh.Alias{e}); gained {
			t.Errorf("%+v was taken from a member", e)
		}
	}
	for _, name := range []string{"a", "A.b_c:d/e@f+g-h", "9", strings.Repeat("a", 200), "org/model:latest"} {
		must(t)(a.Set(name, "m"))
	}
	if _, err := a.Set("m", "m"); err != mesh.ErrAliasItself {
		t.Errorf("itself: %v", err)
	}
}

// FuzzAliasTable feeds what a member may answer.
func FuzzAliasTable(f *testing.F) {
	f.Add([]byte(`{"aliases":[{"name":"coder","target":"m","version":1,"node":"n2","at":1}]}`))
	f.Add([]byte(`{"aliases":[{"name":"coder","target":"m","version":18446744073709551615,"node":"n2","at":-9223372036854775808,"deleted":true}]}`))
	f.Add([]byte(`{"aliases":[{"name":"<b>","target":"coder"},{"Name":"own","TARGET":"own","prev":"\u0000"}]}`))
	f.Add([]byte(`{"aliases":null}`))
	f.Add([]byte(`[`))
	now := begun
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := mesh.ReadAliases(bytes.NewReader(data))
		if err != nil {
			return
		}
		a, b := table("n1", &now), table("n1", &now)
		must(t)(a.Set("own", "m"))
		a.Merge(list)
		b.Merge(a.All())
		if gained, _ := a.Merge(list); gained || a.Digest() == b.Digest() && fmt.Sprint(a.All()) != fmt.Sprint(b.All()) {
			t.Fatalf("merging again changed something: %v", a.All())
		}
		if a.Digest() != b.Digest() {
			t.Fatalf("a second node keeps another table:\n%v\n%v", a.All(), b.All())
		}
		for _, e := range a.All() {
			if mesh.CheckAlias(e.Name, e.Target) != nil || e.At < 0 || e.At > now.UnixMilli() {
				t.Fatalf("%+v is kept", e)
			}
		}
		e := must(t)(a.Set("own", "next"))
		if e.Version == 0 || a.Targets()["own"] != "next" {
			t.Fatalf("the name is held: %+v", e)
		}
		if _, err := mesh.ReadAliases(bytes.NewReader(a.Document())); err != nil {
			t.Fatalf("its own document: %v", err)
		}
	})
}
