package mesh_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// printed lists residents as text, in an order of their own.
func printed(all []*mesh.Resident) string {
	var lines []string
	for _, s := range all {
		lines = append(lines, fmt.Sprintf("%s%s %s %s %x %v %d", s.Backend, s.Replica, s.Session, s.Source, s.Chain, s.Marks, s.Tokens))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestWhatIsToldAddsUpToWhatIsHeld, however many changes a follower misses between two lines.
func TestWhatIsToldAddsUpToWhatIsHeld(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	from, to := mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
	telling := mesh.NewTelling(from, to)
	sessions := map[string][]string{}
	for step := range 3000 {
		for range rnd.IntN(4) {
			s := fmt.Sprint("s", rnd.IntN(40))
			if rnd.IntN(30) == 0 {
				sessions[s] = nil // its history is rewritten
			}
			if sessions[s] == nil {
				sessions[s] = []string{"head", s + fmt.Sprint(step)}
			}
			sessions[s] = append(sessions[s], fmt.Sprint(step))
			from.Settle(held(fmt.Sprint("m#", rnd.IntN(2)), s, sessions[s]...), rnd.IntN(2000))
		}
		if rnd.IntN(200) == 0 {
			from.Forget("m#0")
		}
		if err := telling.Tell(); err != nil {
			t.Fatal(err)
		}
		if got, want := printed(mesh.Heard(to, "n02")), printed(mesh.Own(from)); got != want {
			t.Fatalf("step %d: heard\n%s\nheld\n%s", step, got, want)
		}
	}
}

// TestTurnOfALongConversationIsAShortLine: only the end of a chain goes out.
func TestTurnOfALongConversationIsAShortLine(t *testing.T) {
	from, to := mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
	telling := mesh.NewTelling(from, to)
	var words []string
	for i := range 200 {
		words = append(words, fmt.Sprint(i))
	}
	from.Settle(held("m#0", "s", words...), -1)
	if err := telling.Tell(); err != nil || len(telling.Lines) != 1 {
		t.Fatal(err, len(telling.Lines))
	}
	whole := len(telling.Lines[0])
	from.Settle(held("m#0", "s", append(words, "x", "y")...), -1)
	if err := telling.Tell(); err != nil || len(telling.Lines) != 1 {
		t.Fatal(err, len(telling.Lines))
	}
	t.Logf("200 links: %d bytes; two more: %d", whole, len(telling.Lines[0]))
	if n := len(telling.Lines[0]); n > 300 {
		t.Errorf("%d bytes: %s", n, telling.Lines[0])
	}
	if err := telling.Tell(); err != nil || len(telling.Lines) != 0 {
		t.Errorf("nothing new is %d lines, %v", len(telling.Lines), err)
	}
}

func TestAFullNodeIsToldInBoundedLines(t *testing.T) {
	from, to := mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
	for i := range 64 {
		for j := range 20 {
			words := []string{"head", fmt.Sprint(i, j)}
			for k := range 200 {
				words = append(words, fmt.Sprint(k))
			}
			from.Settle(held(fmt.Sprint("m#", i), fmt.Sprint("s", i, j), words...), -1)
		}
	}
	telling := mesh.NewTelling(from, to)
	if err := telling.Tell(); err != nil {
		t.Fatal(err)
	}
	links, all := 0, 0
	for _, s := range mesh.Own(from) {
		links += len(s.Chain)
	}
	for _, l := range telling.Lines {
		all += len(l)
		if len(l) > 2*mesh.TellAtOnce {
			t.Errorf("a line of %d bytes", len(l))
		}
	}
	if links > mesh.MaxLinks || links < mesh.MaxLinks/2 {
		t.Errorf("%d links are held", links)
	}
	if printed(mesh.Heard(to, "n02")) != printed(mesh.Own(from)) {
		t.Error("not all of it was heard")
	}
	t.Logf("%d residents, %d links: %d lines, %d KiB", len(mesh.Own(from)), links, len(telling.Lines), all>>10)
}

func TestImpossibleHoldingsAreNotBelieved(t *testing.T) {
	good := `{"residents":{"begin":true,"held":[{"id":1,"model":"m","backend":"m#0","session":"s","links":"AAAAAAAAAAAAAAAAAAAAAA","marks":[5],"tokens":9,"idle_ms":1}]}}`
	r := mesh.NewRegister(mesh.RegisterConfig{})
	if told, err := mesh.HearLines(r, [][]byte{[]byte(good)}); err != nil {
		t.Fatal(err)
	} else if n, links := told.Size(); n != 1 || links != 1 {
		t.Fatal(n, links)
	}
	for name, change := range map[string][2]string{
		"no model":           {`"model":"m"`, `"model":""`},
		"markup in a name":   {`"m#0"`, `"m\u001b[31m"`},
		"a long session":     {`"session":"s"`, `"session":"` + strings.Repeat("s", 65) + `"`},
		"half a link":        {`AAAAAAAAAAAAAAAAAAAAAA`, `AAAA`},
		"no base64":          {`AAAAAAAAAAAAAAAAAAAAAA`, `!`},
		"a mark too many":    {`[5]`, `[5,6]`},
		"marks that fall":    {`"links":"AAAAAAAAAAAAAAAAAAAAAA","marks":[5]`, `"links":"` + strings.Repeat("A", 43) + `","marks":[5,4]`},
		"more marks than is": {`[5]`, `[10]`},
		"negative tokens":    {`"tokens":9`, `"tokens":-9`},
		"huge tokens":        {`"tokens":9`, `"tokens":9000000000000`},
		"NaN":                {`"tokens":9`, `"tokens":NaN`},
		"the future":         {`"idle_ms":1`, `"idle_ms":-1`},
		"long ago":           {`"idle_ms":1`, `"idle_ms":99999999999999`},
		"a past of nothing":  {`"id":1`, `"id":1,"of":7,"keep":1`},
	} {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatal(name, "changes nothing")
		}
		if _, err := mesh.HearLines(r, [][]byte{[]byte(good), []byte(bad)}); err == nil {
			t.Errorf("%s: believed", name)
		}
	}
	var flood [][]byte
	for i := range mesh.MaxResidents + 1 {
		flood = append(flood, fmt.Appendf(nil, `{"residents":{"held":[{"id":%d,"model":"m","backend":"m#0","tokens":9,"idle_ms":1}]}}`, i+1))
	}
	if _, err := mesh.HearLines(r, flood); err == nil {
		t.Error("a flood is believed")
	}
	if n := len(mesh.Heard(r, "n02")); n != 0 {
		t.Errorf("%d residents of it are kept", n)
	}
}

func FuzzHoldings(f *testing.F) {
	f.Add([]byte(`{"residents":{"begin":true,"held":[{"id":1,"model":"m","backend":"m#0","session":"s","links":"AAAAAAAAAAAAAAAAAAAAAA","marks":[5],"tokens":9,"idle_ms":1}]}}` + "\n" +
		`{"residents":{"held":[{"id":2,"of":1,"keep":1,"model":"m","backend":"m#0","links":"AAAAAAAAAAAAAAAAAAAAAQ","marks":[7],"tokens":9,"idle_ms":1}],"gone":[1,9]}}`))
	f.Add([]byte(`{"residents":{"held":[{"id":1,"keep":-1}]}}`))
	f.Add([]byte(`{"residents":{"begin":true,"held":[{"id":1,"model":"m","replica":"0123456789abcdef0123456789abcdef","links":"AAAAAAAAAAAAAAAAAAAAAA","marks":[5],"tokens":9,"idle_ms":1}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := mesh.NewRegister(mesh.RegisterConfig{})
		told, err := mesh.HearLines(r, bytes.Split(data, []byte("\n")))
		if n, links := told.Size(); err == nil && (n > mesh.MaxResidents || links > mesh.MaxLinks) {
			t.Fatal(n, links)
		}
		for _, s := range mesh.Heard(r, "n02") {
			f := r.Find(s.Model, s.Session, s.Chain)
			if len(s.Chain) > 0 && len(f.Held)+len(f.Stored) == 0 {
				t.Fatal("heard and not found")
			}
			for _, h := range append(f.Held, f.Stored...) {
				if h.Tokens < 0 {
					t.Fatal(h.Tokens)
				}
			}
			if f.Known && f.Home.Backend == "" {
				t.Fatal("a replica is a home")
			}
		}
		r.Conversations(100)
		r.Leave("n02")
		if links, sites := mesh.Indexed(r); links+sites != 0 {
			t.Fatalf("after it has left %d links of %d sites are there", links, sites)
		}
	})
}

// TestAnyNodeKnowsAHome: what a member holds is known a moment after its answer ended, after a restart of the one that
// asks, and no more once the owner has begun anew or has left.
func TestAnyNodeKnowsAHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, func(a, b *node) {
			a.known, b.known = mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
		})
		time.Sleep(time.Second)
		there := mesh.Spot{Node: b.ID, Backend: "m#0"}
		next := chain("head", "1", "2", "3")
		b.known.Settle(held("m#0", "s", "head", "1"), -1)
		b.publisher.Changed()
		time.Sleep(100 * time.Millisecond)
		if f := a.known.Find("m", "s", next); f.Home != there || at(f, there) != 2100 {
			t.Fatalf("after its answer: %+v", f)
		}
		seq := a.sees(b.ID).Report.Seq
		b.known.Settle(held("m#0", "s", "head", "1", "2"), -1)
		b.publisher.Changed()
		time.Sleep(100 * time.Millisecond)
		if f := a.known.Find("m", "", next); f.Home != there || at(f, there) != 3100 {
			t.Fatalf("a turn later: %+v", f)
		}
		if now := a.sees(b.ID).Report.Seq; now != seq {
			t.Errorf("the report's number went from %d to %d though it is the same", seq, now)
		}
		entry := newNode(t, member(3), b.keys, b.dial) // begins now, and knows nothing
		entry.members = func() []mesh.Member { return []mesh.Member{b.Member} }
		entry.known = mesh.NewRegister(mesh.RegisterConfig{})
		entry.start(newNetwork().listen(entry.Addr))
		time.Sleep(time.Second)
		if f := entry.known.Find("m", "s", next); f.Home != there || at(f, there) != 3100 || f.Since > 2*time.Second {
			t.Fatalf("at a node that has just begun: %+v", f)
		}
		entry.stop()
		b.known.Forget("m#0")
		time.Sleep(2 * time.Second)
		if f := a.known.Find("m", "s", next); !f.Known || len(f.Held) != 0 {
			t.Fatalf("after the engine began anew: %+v", f)
		}
	})
}

// TestWhoDoesNotAskForResidentsGetsNone: an older node would end the stream at a line that it does not know.
func TestWhoDoesNotAskForResidentsGetsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, func(a, b *node) { b.known = mesh.NewRegister(mesh.RegisterConfig{}) })
		time.Sleep(time.Second)
		b.known.Settle(held("m#0", "s", "head", "1"), -1)
		b.set(capacity(3))
		time.Sleep(5 * time.Second)
		if s := a.sees(b.ID); s.Fault != "" || a.free(b.ID) != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAMemberIsKnownOnceItHasToldAll, and not at the first of its lines: what comes later would look as if nobody had it.
func TestAMemberIsKnownOnceItHasToldAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, func(a, b *node) {
			a.known, b.known = mesh.NewRegister(mesh.RegisterConfig{}), mesh.NewRegister(mesh.RegisterConfig{})
			for i := range 60 {
				words := []string{"head", fmt.Sprint(i)}
				for j := range 100 {
					words = append(words, fmt.Sprint(j))
				}
				b.known.Settle(held(fmt.Sprint("m#", i), fmt.Sprint("s", i), words...), -1)
			}
		})
		if a.known.Knows(b.ID) {
			t.Fatal("nothing was told yet")
		}
		parts := map[int]bool{}
		for !a.known.Knows(b.ID) {
			parts[len(mesh.Heard(a.known, b.ID))] = true
			time.Sleep(time.Millisecond)
		}
		if n := len(mesh.Heard(a.known, b.ID)); n != 60 {
			t.Errorf("it is known by %d of 60 conversations", n)
		}
		if len(parts) < 3 {
			t.Fatalf("it was told at one go, so this shows nothing: %v", parts)
		}
		b.stop()
		a.known.Leave(b.ID)
		if a.known.Knows(b.ID) {
			t.Error("it is known after it has left")
		}
	})
}
