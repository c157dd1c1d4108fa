package mesh_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// TestAliasIsKnownEverywhereAtOnce, whoever sets it, and its removal as well.
func TestAliasIsKnownEverywhereAtOnce(t *testing.T) {
	inTown(t, 8, func(t *testing.T, w *town) {
		for i := range w.nodes {
			w.set(i, "coder", fmt.Sprint("m", i))
			time.Sleep(time.Second)
			w.leads("coder", fmt.Sprint("m", i))
		}
		for i := range 20 { // without a pause
			w.set(3, fmt.Sprint("quick", i), "m")
		}
		time.Sleep(time.Second)
		for i := range 20 {
			w.leads(fmt.Sprint("quick", i), "m")
		}
		must(t)(w.nodes[5].aliases.Remove("coder"))
		time.Sleep(time.Second)
		w.leads("coder", "")
	})
}

// TestPartitionsThatSetOneNameAgreeAfterwards: on the same, and on all else that either side did.
func TestPartitionsThatSetOneNameAgreeAfterwards(t *testing.T) {
	inTown(t, 5, func(t *testing.T, w *town) {
		w.set(0, "coder", "m0")
		w.set(0, "gone", "m0")
		time.Sleep(time.Second)
		w.cut(2)
		w.set(0, "coder", "left")
		w.set(4, "coder", "right")
		w.set(1, "only-left", "m1")
		w.set(3, "only-right", "m3")
		must(t)(w.nodes[2].aliases.Remove("gone"))
		time.Sleep(5 * time.Minute)
		if l, r := w.nodes[1].aliases.Targets()["coder"], w.nodes[2].aliases.Targets()["coder"]; l != "left" || r != "right" {
			t.Fatalf("cut, the sides have %q and %q", l, r)
		}
		w.cut(0)
		time.Sleep(2 * time.Second)
		w.leads("coder", "right") // of two with one version that of the greater id
		w.leads("only-left", "m1")
		w.leads("only-right", "m3")
		w.leads("gone", "")
		w.set(0, "coder", "left")
		time.Sleep(time.Second)
		w.leads("coder", "left")
	})
}

// TestLostMessagesAreMadeUpForWithinAMinute: the digest is told again although nothing has changed.
func TestLostMessagesAreMadeUpForWithinAMinute(t *testing.T) {
	inTown(t, 3, func(t *testing.T, w *town) {
		w.mu.Lock()
		w.deaf = true
		w.mu.Unlock()
		w.set(0, "coder", "m")
		time.Sleep(time.Second)
		w.mu.Lock()
		w.deaf = false
		w.mu.Unlock()
		if len(w.nodes[2].aliases.Targets()) > 0 {
			t.Fatal("no message was lost: the test shows nothing")
		}
		time.Sleep(mesh.TellEvery + time.Second)
		w.leads("coder", "m")
	})
}

// TestWhoKnowsMoreThanTheTellerSaysSo: a node that missed a change and tells what it has is put right at once.
func TestWhoKnowsMoreThanTheTellerSaysSo(t *testing.T) {
	inTown(t, 4, func(t *testing.T, w *town) {
		w.mu.Lock()
		w.deaf = true
		w.mu.Unlock()
		w.set(0, "coder", "m")
		time.Sleep(6 * time.Second)
		w.mu.Lock()
		w.deaf = false
		w.mu.Unlock()
		digest := w.nodes[1].aliases.Digest()
		w.gossip(w.nodes[1].ID, append(digest[:], w.nodes[1].ID...))
		time.Sleep(2 * time.Second)
		w.leads("coder", "m")
	})
}

// TestTablesThatAreTheSameAreNotFetched: when nothing changes, nobody asks, of many one tells, and members that meet again
// send each other no table.
func TestTablesThatAreTheSameAreNotFetched(t *testing.T) {
	inTown(t, 6, func(t *testing.T, w *town) {
		w.set(0, "coder", "m")
		time.Sleep(10 * time.Second)
		sum := func(of func(*townsman) *atomic.Int64) (n int64) {
			for _, man := range w.nodes {
				n += of(man).Load()
			}
			return n
		}
		asked, sent := func(m *townsman) *atomic.Int64 { return &m.asked }, func(m *townsman) *atomic.Int64 { return &m.sent }
		wereAsked, haveSaid := sum(asked), w.messages()
		time.Sleep(10 * time.Minute)
		if n := sum(asked) - wereAsked; n > 0 {
			t.Errorf("asked %d times within 10 minutes in which nothing changed", n)
		}
		if n := w.messages() - haveSaid; n < 9 || n > 25 {
			t.Errorf("told %d times within 10 minutes", n)
		}
		haveSent := sum(sent)
		w.cut(0)
		time.Sleep(10 * time.Second)
		if n := sum(asked) - wereAsked; n < 30 || sum(sent) != haveSent {
			t.Errorf("asked %d times, %d tables sent", n, sum(sent)-haveSent)
		}
	})
}

// TestMessagesWithoutEndAreHeldBack: whoever gossips can say that a member has news, and the member is asked all the same
// about twice a second, once at a time; what is no message is nothing.
func TestMessagesWithoutEndAreHeldBack(t *testing.T) {
	inTown(t, 2, func(t *testing.T, w *town) {
		w.set(0, "coder", "m")
		time.Sleep(time.Second)
		a, b := w.nodes[0], w.nodes[1]
		before := b.asked.Load()
		for i := range 10000 {
			a.herald.Hear(append([]byte(fmt.Sprintf("%032d", i)), b.ID...))
			a.herald.Hear([]byte("short"))
			a.herald.Hear(append(make([]byte, 32), "no member"...))
			a.herald.Hear(append(make([]byte, 32), a.ID...))
			a.herald.Hear(append(make([]byte, 32), strings.Repeat("x", 400)...))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := b.asked.Load() - before; n == 0 || n > 25 {
			t.Errorf("asked %d times within 10 s", n)
		}
		w.set(1, "coder", "n")
		time.Sleep(time.Second)
		w.leads("coder", "n")
	})
}

// TestHostileTableDoesNoHarm: too many, too long, never ending or no table at all, and what is impossible in one.
func TestHostileTableDoesNoHarm(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"10,000":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(document(t, hostile(10000, nil))) },
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://10.0.0.1:8086/", http.StatusFound)
		},
		"no end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"impossible": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(document(t, hostile(1000, func(i int, e *mesh.Alias) {
				e.Name, e.Version = strangeNames[i%len(strangeNames)], ^uint64(0)
			})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, 3, func(t *testing.T, w *town) {
				w.set(0, "coder", "m")
				time.Sleep(time.Second)
				rogue := w.nodes[2]
				rogue.answer.Store(&answer)
				for i := range 100 {
					w.gossip(rogue.ID, append([]byte(fmt.Sprintf("%032d", i)), rogue.ID...))
				}
				time.Sleep(time.Second)
				w.set(1, "other", "m")
				time.Sleep(time.Second)
				for _, man := range w.nodes[:2] {
					if got := man.aliases.Targets(); len(got) != 2 || got["coder"] != "m" || got["other"] != "m" {
						t.Errorf("%s has %v", man.Name, got)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestAliasesAreForMembers in a secured mesh; in an open one for everybody. Who has the same is told so, without the table.
func TestAliasesAreForMembers(t *testing.T) {
	for _, c := range []struct {
		cfg            mesh.KeyConfig
		signed         bool
		method, header string
		want           int
	}{
		{mesh.KeyConfig{Secret: secret}, false, "GET", "", 403},
		{mesh.KeyConfig{Secret: secret}, true, "GET", "", 200},
		{mesh.KeyConfig{Secret: secret}, true, "DELETE", "", 405},
		{mesh.KeyConfig{}, false, "GET", "", 200},
		{mesh.KeyConfig{}, false, "GET", "tag", 304},
	} {
		b := newNode(t, member(2), keys(t, c.cfg), nil)
		b.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: b.ID, Keys: b.keys})
		h := mesh.NewHerald(mesh.HeraldConfig{ID: b.ID, Aliases: mesh.NewAliases(mesh.AliasesConfig{}), Verifier: b.verifier})
		first, r := newRecorded(h, "GET", "", nil), ""
		if c.header != "" {
			r = first.Header().Get("ETag")
		}
		var sign func(*http.Request)
		if c.signed {
			sign = sender(b, "n01", "")
		}
		if got := newRecorded(h, c.method, r, sign); got.Code != c.want {
			t.Errorf("%+v: %d %s", c, got.Code, got.Body)
		}
	}
}

// newRecorded is the answer to one request.
func newRecorded(h http.Handler, method, tag string, sign func(*http.Request)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "/v1/aliases", nil)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	if sign != nil {
		sign(req)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}
