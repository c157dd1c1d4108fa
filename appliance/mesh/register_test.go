package mesh_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// chain is a prompt: the same words give the same links as far as they go.
func chain(words ...string) (links []mesh.Link) {
	var all []byte
	for _, w := range words {
		all = fmt.Appendf(all, "%d:%s", len(w), w)
		links = append(links, mesh.DigestOf(all))
	}
	return links
}

// held is a resident of a backend, each link a thousand tokens.
func held(backend, session string, words ...string) mesh.Resident {
	r := mesh.Resident{Model: "m", Backend: backend, Session: session, Source: "X-Session-Id", Chain: chain(words...), Tokens: 1000*len(words) + 100}
	for i := range words {
		r.Marks = append(r.Marks, 1000*(i+1))
	}
	return r
}

func at(f mesh.Found, s mesh.Spot) int {
	for _, h := range f.Held {
		if h.Spot == s {
			return h.Tokens
		}
	}
	return 0
}

func spot(backend string) mesh.Spot { return mesh.Spot{Backend: backend} }

func TestLinkSharedByTwoConversationsDecidesNothing(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	r.Settle(held("m#0", "", "head", "tools", "ann 1"), -1)
	if f := r.Find("m", "", chain("head", "tools", "ann 1", "answer", "ann 2")); !f.Known || !f.ByPrefix || f.Home != spot("m#0") || at(f, spot("m#0")) != 3100 {
		t.Fatalf("its own next turn: %+v", f)
	}
	r.Settle(held("m#1", "", "head", "tools", "bob 1"), -1)
	f := r.Find("m", "", chain("head", "tools", "cy 1"))
	if f.Known || at(f, spot("m#0")) != 2000 || at(f, spot("m#1")) != 2000 {
		t.Fatalf("a third conversation: %+v", f)
	}
	if f := r.Find("m", "", chain("head", "other")); f.Known || at(f, spot("m#0")) != 1000 {
		t.Fatalf("the head alone: %+v", f)
	}
	if f := r.Find("m", "", chain("head", "tools", "bob 1", "x")); f.Home != spot("m#1") || at(f, spot("m#0")) != 2000 {
		t.Fatalf("bob's next turn: %+v", f)
	}
	r.Forget("m#1")
	if f := r.Find("m", "", chain("head", "tools", "cy 1")); !f.Known || at(f, spot("m#1")) != 0 {
		t.Fatalf("after one is gone the link is shared no more: %+v", f)
	}
}

// TestSmallRequestOfASessionDoesNotMoveIt: a title request has the session's key and a prompt of its own.
func TestSmallRequestOfASessionDoesNotMoveIt(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	long := []string{"head", "1", "2", "3", "4", "5"}
	r.Settle(held("m#0", "s", long...), -1)
	r.Went("m", "s", "", spot("m#1"))
	r.Settle(held("m#1", "s", "title head", "title"), -1)
	f := r.Find("m", "s", chain(append(long, "6")...))
	if f.Home != spot("m#0") || at(f, spot("m#0")) != 6100 {
		t.Fatalf("%+v", f)
	}
	if f := r.Find("m", "s", nil); f.Home != spot("m#1") {
		t.Fatalf("without a prompt its last place is all that is known: %+v", f)
	}
}

func TestHomeOutlivesWhatIsHeld(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	r.Settle(held("m#0", "s", "head", "1"), -1)
	r.Forget("m#0")
	if f := r.Find("m", "s", chain("head", "1", "2")); !f.Known || f.Home != spot("m#0") || len(f.Held) != 0 {
		t.Fatalf("%+v", f)
	}
	if f := r.Find("other", "s", nil); f.Known {
		t.Fatal("a home is of one model")
	}
}

func TestMillionConversationsLeaveMemoryFlat(t *testing.T) {
	turns := 1_000_000
	if testing.Short() {
		turns = 100_000
	}
	r := mesh.NewRegister(mesh.RegisterConfig{})
	size := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	fill := func(from, n int) {
		for i := from; i < from+n; i++ {
			s := fmt.Sprint(i)
			r.Settle(held(fmt.Sprint("m#", i%4), s, "head", s), -1)
		}
	}
	fill(0, 20_000)
	before := size()
	fill(20_000, turns)
	after := size()
	t.Logf("%d conversations: %d KiB, after %d more %d KiB", 20_000, before>>10, turns, after>>10)
	if after > before+before/4+1<<20 {
		t.Errorf("grew from %d to %d bytes", before, after)
	}
	if n := len(r.Conversations(1 << 30)); n != mesh.MaxHomes {
		t.Errorf("%d conversations remembered", n)
	}
	if links, sites := mesh.Indexed(r); links > 4*64*2 || sites != 4 {
		t.Errorf("%d links, %d sites", links, sites)
	}
}

// TestIndexIsWhatIsHeld: whatever happens, what is found is what a plain search over all that is held finds.
func TestIndexIsWhatIsHeld(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	synctest.Test(t, func(t *testing.T) {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		word := func() string { return string(rune('a' + rnd.IntN(3))) }
		for step := range 5000 {
			time.Sleep(time.Second)
			var words []string
			for range 1 + rnd.IntN(6) {
				words = append(words, word())
			}
			backend := fmt.Sprint("m#", rnd.IntN(3))
			switch rnd.IntN(20) {
			case 0:
				r.Forget(backend)
			case 1, 2, 3, 4, 5, 6:
				r.Settle(held(backend, word(), words...), rnd.IntN(4000))
			}
			want := map[mesh.Spot]int{}
			for _, s := range mesh.Own(r) {
				for i := len(s.Chain) - 1; i >= 0; i-- {
					if p := chain(words...); i < len(p) && p[i] == s.Chain[i] {
						want[spot(s.Backend)] = max(want[spot(s.Backend)], i+1)
						break
					}
				}
			}
			got := map[mesh.Spot]int{}
			for _, h := range r.Find("m", "", chain(words...)).Held {
				got[h.Spot] = h.Tokens / 1000
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d, %v: found %v, held %v", step, words, got, want)
			}
		}
		for i := range 3 {
			r.Forget(fmt.Sprint("m#", i))
		}
		if links, sites := mesh.Indexed(r); links+sites != 0 {
			t.Errorf("nothing is held, and %d links of %d sites are indexed", links, sites)
		}
	})
}

func TestLongChainIsKeptByItsEnds(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	var words []string
	for i := range 1000 {
		words = append(words, fmt.Sprint(i))
	}
	r.Settle(held("m#0", "", words...), -1)
	if f := r.Find("m", "", chain(append(words, "next")...)); f.Home != spot("m#0") || at(f, spot("m#0")) != 1_000_100 {
		t.Errorf("its next turn: %+v", f)
	}
	if f := r.Find("m", "", chain("0", "1", "2", "x")); at(f, spot("m#0")) != 3000 {
		t.Errorf("its beginning: %+v", f)
	}
	if links, _ := mesh.Indexed(r); links != mesh.MaxChain {
		t.Errorf("%d links", links)
	}
}

func TestResidentCountsSessionsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		r.Settle(held("m#0", "s", "head", "1"), -1)
		r.Settle(held("m#0", "s", "title", "2"), -1)
		r.Settle(held("m#0", "", "head", "3"), -1)
		if n := r.Residents("m#0"); n != 2 {
			t.Errorf("%d", n)
		}
		time.Sleep(6 * time.Minute)
		if n := r.Residents("m#0"); n != 0 {
			t.Errorf("%d after they were idle", n)
		}
	})
}

// TestMemberThatClaimsWhatItDoesNotHoldIsNotBelieved for a while, and is named.
func TestMemberThatClaimsWhatItDoesNotHoldIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := mesh.NewRegister(mesh.RegisterConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
		liar := mesh.Member{ID: "n09", Name: "liar"}
		mesh.TellOf(t, r, liar.ID, held("m#0", "s", "head", "1", "2"))
		there := mesh.Spot{Node: liar.ID, Backend: "m#0"}
		next := chain("head", "1", "2", "3")
		believed := func() bool {
			f := r.Find("m", "s", next)
			g := r.Find("m", "", next)
			return f.Known && f.Home == there && at(f, there) == 3100 && g.Known && g.Home == there
		}
		for range 10 { // wrong twice, then right: nobody's engine keeps everything
			r.Prove(liar, 3100, 0)
			r.Prove(liar, 3100, 10)
			r.Prove(liar, 3100, 3000)
			r.Prove(liar, 100, 0)   // too little to tell
			r.Prove(liar, 3100, -1) // nobody knows
		}
		if !believed() {
			t.Fatal("not believed though it was right again and again")
		}
		for range 3 {
			r.Prove(liar, 3100, 0)
		}
		if f := r.Find("m", "s", next); f.Known || len(f.Held) != 0 {
			t.Fatalf("still believed: %+v", f)
		}
		mesh.TellOf(t, r, liar.ID, held("m#0", "t", "head", "x"))
		if f := r.Find("m", "t", nil); f.Known {
			t.Fatal("what it says meanwhile is believed")
		}
		if !strings.Contains(log.String(), "member=liar") {
			t.Errorf("not named: %s", log.String())
		}
		if w, ok := mesh.Doubted(r, liar); !ok || !strings.Contains(w.Text, "liar") {
			t.Errorf("no warning: %+v", w)
		}
		r.Went("m", "s", "", there) // what this node has seen itself counts
		if f := r.Find("m", "s", nil); !f.Known {
			t.Error("an own observation is discounted")
		}
		time.Sleep(6 * time.Minute)
		mesh.TellOf(t, r, liar.ID, held("m#0", "s", "head", "1", "2"))
		if !believed() {
			t.Error("never believed again")
		}
	})
}

// TestLiarThatComesAndGoesIsFoundOut: what was wrong counts on though it leaves, or what it says is no word at all, in between.
func TestLiarThatComesAndGoesIsFoundOut(t *testing.T) {
	for how, begin := range map[string]func(*mesh.Register, string){
		"leaves": func(r *mesh.Register, id string) { r.Leave(id) },
		"garbles": func(r *mesh.Register, _ string) {
			_, _ = mesh.HearLines(r, [][]byte{[]byte(`{"residents":{"held":[{"id":1,"links":"?"}]}}`)})
		},
	} {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		liar := mesh.Member{ID: "n02", Name: "liar"}
		for range 4 {
			begin(r, liar.ID)
			mesh.TellOf(t, r, liar.ID, held("m#0", "s", "head", "1", "2"))
			r.Prove(liar, 3100, 0)
		}
		if f := r.Find("m", "s", chain("head", "1", "2", "3")); f.Known || len(f.Held) != 0 {
			t.Errorf("one that %s is still believed: %+v", how, f)
		}
	}
}

// TestWordsAgainstMembersAreBounded, however many names a liar goes by.
func TestWordsAgainstMembersAreBounded(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	for i := range 10_000 {
		liar := mesh.Member{ID: fmt.Sprint("n", i), Name: "liar"}
		for range 1 + i%3 {
			r.Prove(liar, 3100, 0)
		}
	}
	if n := mesh.Credits(r); n > 2*mesh.MaxMembers {
		t.Errorf("%d are remembered", n)
	}
}

func TestHomesAreBounded(t *testing.T) {
	r := mesh.NewRegister(mesh.RegisterConfig{})
	knows := func(model, session string) bool { return r.Find(model, session, nil).Known }
	for i := range mesh.MaxHomes + 10 {
		r.Went("m", fmt.Sprint(i), "", spot("m#0"))
		knows("m", "0") // what is used stays
	}
	if n := len(r.Conversations(1 << 30)); n != mesh.MaxHomes || !knows("m", "0") || knows("m", "1") || knows("other", "0") || knows("m", "") {
		t.Errorf("%d homes", n)
	}
}

func TestLaterWordAboutAHomeWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		old := held("m#0", "s", "head", "1")
		old.Active = time.Now()
		time.Sleep(time.Minute)
		r.Went("m", "s", "", spot("m#1"))
		time.Sleep(time.Minute)
		mesh.TellOf(t, r, "n02", old) // its stream has only begun now
		if f := r.Find("m", "s", nil); f.Home != spot("m#1") {
			t.Errorf("%+v", f)
		}
		mesh.TellOf(t, r, "n02", held("m#0", "s", "head", "1", "2"))
		if f := r.Find("m", "s", nil); f.Home != (mesh.Spot{Node: "n02", Backend: "m#0"}) {
			t.Errorf("%+v", f)
		}
	})
}

// TestOwnersWordAboutItsOwnIsNeverTooLate: the entry sees the answer end a moment after its owner did.
func TestOwnersWordAboutItsOwnIsNeverTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		mesh.TellOf(t, r, "n02", held("m#0", "s", "head", "1"))
		ended := held("m#0", "s", "head", "1", "2")
		ended.Active = time.Now()
		time.Sleep(100 * time.Millisecond)
		r.Went("m", "s", "", mesh.Spot{Node: "n02", Backend: "m#0"})
		mesh.TellOf(t, r, "n02", ended)
		if all := r.Conversations(9); len(all) != 1 || all[0].Tokens != ended.Tokens {
			t.Errorf("%+v", all)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	for _, backends := range []int{16, 1000} {
		b.Run(fmt.Sprint(backends, "backends"), func(b *testing.B) {
			r := mesh.NewRegister(mesh.RegisterConfig{})
			var words []string
			for i := range 100 {
				words = append(words, fmt.Sprint(i))
			}
			for i := range backends {
				for j := range 16 {
					own := append([]string{"head", "tools", fmt.Sprint(i, j)}, words[:50]...)
					mesh.TellOf(b, r, fmt.Sprint("n", i/4), held(fmt.Sprint("m#", i%4), fmt.Sprint(i, j), own...))
				}
			}
			next := chain(append([]string{"head", "tools", "3 3"}, words...)...)
			b.ReportAllocs()
			for b.Loop() {
				if f := r.Find("m", "3 3", next); !f.Known {
					b.Fatal("lost")
				}
			}
		})
	}
}
