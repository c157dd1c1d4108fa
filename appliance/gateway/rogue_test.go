package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

// TestGarbageFromAMemberIsAnError in the API's own shape: never a complete answer, never bytes of another kind, and the
// entry serves on.
func TestGarbageFromAMemberIsAnError(t *testing.T) {
	t.Parallel()
	r := newRogue(t, 8, "m", nil)
	fl := newFleet(t, []mesh.Member{r.Member}, spec{})
	n := fl.peers[0]
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<script>x</script>")
		}},
		{"a redirect", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(302)
		}},
		{"a status of its own", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(999) }},
		{"an error that is a page", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "<script>"+strings.Repeat("x", 1<<20))
		}},
		{"a stream of noise", func(w http.ResponseWriter, _ *http.Request) {
			stream(w, "data: {\"choices\":[{\"delta\"\x00\xff", "nonsense", "data: ]]]")
		}},
		{"a stream without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for line := bytes.Repeat([]byte("x"), 1<<20); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}},
		{"an empty stream", func(w http.ResponseWriter, _ *http.Request) { stream(w) }},
		{"headers that are too long", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Viiwork-Backend", strings.Repeat("x", 1<<20))
		}},
		{"another protocol", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n")
				c.Close()
			}
		}},
	} {
		for _, more := range []string{"", `,"stream":true`} {
			t.Run(c.name+more, func(t *testing.T) {
				n.seesFree(r.ID, "m", 8)
				r.says(c.answer)
				got := n.post("/v1/chat/completions", chat("m", "hi", more))
				text := string(got.body)
				if got.err != nil || !strings.Contains(text, `"error"`) || strings.Contains(text, "<script>") || strings.Contains(text, "[DONE]") || got.status == 302 {
					t.Errorf("%d %v %.300s", got.status, got.err, text)
				}
				if kind := got.head.Get("Content-Type"); kind != "application/json" && kind != "text/event-stream" || len(got.head.Get("X-Viiwork-Backend")) > 512 {
					t.Errorf("%v", got.head)
				}
			})
		}
	}
	if doc := n.do("GET", "/v1/models", "").json(t); at(doc, "data", 0, "id") != "m" {
		t.Errorf("%v", doc)
	}
}

// TestARequestThatBreaksMembersIsHandedToTwoAtMost: it may be the request that ends them.
func TestARequestThatBreaksMembersIsHandedToTwoAtMost(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
	r, s := newRogueNamed(t, "r", 8, "m", nil), newRogueNamed(t, "s", 8, "m", nil)
	fl := newFleet(t, []mesh.Member{r.Member, s.Member}, spec{}, spec{models: model("m", 1, f.URL())})
	free := fl.peers[1].full(fl.peers[0])
	breaks := func(http.ResponseWriter, *http.Request) {
		if r.asked()+s.asked() == 2 {
			free() // and a third may be had now
		}
		panic(http.ErrAbortHandler)
	}
	r.says(breaks)
	s.says(breaks)
	before := asked(f, "")
	wantError(t, fl.peers[0].post("/v1/chat/completions", chat("m", "hi", "")), false, 502, "server_error", "member_broke_off")
	if r.asked() != 1 || s.asked() != 1 || asked(f, "") != before {
		t.Errorf("asked %d and %d times, the third %d", r.asked(), s.asked(), asked(f, "")-before)
	}
}

// TestAMemberThatAlwaysRefusesIsAskedLessAndLess, whatever it tells of free slots, and however often.
func TestAMemberThatAlwaysRefusesIsAskedLessAndLess(t *testing.T) {
	t.Parallel()
	r := newRogue(t, 8, "m", nil)
	r.says(func(w http.ResponseWriter, _ *http.Request) { r.news(); w.WriteHeader(429) })
	fl := newFleet(t, []mesh.Member{r.Member}, spec{change: func(c *gateway.Config) { c.QueueTimeout = 2 * time.Second }})
	wantError(t, fl.peers[0].post("/v1/chat/completions", chat("m", "hi", "")), false, 429, "rate_limit_error", "queue_timeout")
	if n := r.asked(); n < 2 || n > 10 { // about 40 if each report were reason to ask again
		t.Errorf("asked %d times", n)
	}
}

// TestARequestWaitsAsLongAsItMayWhereManyEntriesWantOneSlot: who loses the race for a slot, however often, waits for the
// next.
func TestARequestWaitsAsLongAsItMayWhereManyEntriesWantOneSlot(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 200})
	fl := newFleet(t, nil, spec{change: patient}, spec{change: patient}, spec{change: patient}, spec{models: model("m", 1, f.URL())})
	before := asked(f, "/v1/chat/completions")
	var wg sync.WaitGroup
	for entry := range 3 {
		for i := range 15 {
			wg.Go(func() {
				if r := fl.peers[entry].post("/v1/chat/completions", chat("m", fmt.Sprint(entry, " ", i), "")); r.status != 200 {
					t.Errorf("%d %s", r.status, r.body)
				}
			})
		}
	}
	wg.Wait()
	if n := asked(f, "/v1/chat/completions") - before; n != 45 {
		t.Errorf("the engine ran %d requests for 45", n)
	}
}

// TestARefusedRequestIsServedWhenTheMemberHasRoom: a refusal for want of a slot is a reason to wait.
func TestARefusedRequestIsServedWhenTheMemberHasRoom(t *testing.T) {
	t.Parallel()
	first := true
	r := newRogue(t, 1, "m", func(w http.ResponseWriter, _ *http.Request) {
		if first { // no two of them at one time
			first = false
			w.WriteHeader(429)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"chat.completion"}`)
	})
	fl := newFleet(t, []mesh.Member{r.Member}, spec{change: patient})
	got := fl.peers[0].post("/v1/chat/completions", chat("m", "hi", ""))
	if got.status != 200 || string(got.body) != `{"object":"chat.completion"}` || r.asked() != 2 {
		t.Errorf("%d after %d requests: %s", got.status, r.asked(), got.body)
	}
	if row, _ := fl.peers[0].g.Request(got.head.Get("X-Viiwork-Request-Id")); row.Node != "rogue" || row.QueueMS == nil || *row.QueueMS <= 0 {
		t.Errorf("%+v", row)
	}
}

// TestCapacityOlderThanThreeSecondsRoutesNothing: a member that has stopped to speak is not even asked.
func TestCapacityOlderThanThreeSecondsRoutesNothing(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	r := newRogue(t, 8, "m", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	fl := newFleet(t, []mesh.Member{r.Member}, spec{}, spec{models: model("m", 1, f.URL())})
	a := fl.peers[0]
	r.host.freeze()
	a.until("stale", func() bool { return a.sees(r.ID).Report == nil })
	for range 5 {
		if got := a.post("/v1/chat/completions", chat("m", "hi", "")); got.status != 200 || got.head.Get("X-Viiwork-Node") != "b" {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if r.asked() != 0 || a.sees(r.ID).Quarantined {
		t.Errorf("asked %d times", r.asked())
	}
	for _, h := range at(a.do("GET", "/v1/models/m", "").json(t), "viiwork", "hosts").([]any) {
		if at(h, "node") == "rogue" && (at(h, "free") != nil || at(h, "slots") != nil || at(h, "context") != nil || at(h, "state") != "stale" || at(h, "age_ms").(float64) < 3000) {
			t.Errorf("%v", h)
		}
	}
}
