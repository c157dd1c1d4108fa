package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

func patient(c *gateway.Config) { c.QueueTimeout = time.Minute }

// TestWaitersAreServedInTheirOrder: at an entry without a model, over a member's reports; and where the entry has a
// seat of its own, by whichever frees first.
func TestWaitersAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, local := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d seats of its own", local), func(t *testing.T) {
			o := enginetest.Options{Slots: 1, KeepBodies: true, DecodeTPS: 10}
			mine, theirs := fake(t, o), fake(t, o)
			entry := spec{change: patient}
			if local > 0 {
				entry.models = model("m", 1, mine.URL())
			}
			fl := newFleet(t, nil, entry, spec{models: model("m", 1, theirs.URL())})
			a, b := fl.peers[0], fl.peers[1]
			var busy []func()
			for i := range 1 + local {
				task := fmt.Sprint("busy", i)
				busy = append(busy, a.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, task))
				a.row(task, "generating")
			}
			a.seesFree(b.ID, "m", 0)
			const waiters = 6
			var wg sync.WaitGroup
			for i := range waiters {
				wg.Go(func() {
					r := a.post("/v1/chat/completions", chat("m", fmt.Sprintf("number-%d.", i), ""), "X-Viiwork-Task", fmt.Sprint("w", i))
					if r.status != 200 {
						t.Errorf("%d: %d %.200s", i, r.status, r.body)
					}
				})
				a.until("in line", func() bool { // and told so by who has the line: else the next one's word may come there first
					standing := b.waiting()
					if local > 0 {
						standing += a.waiting()
					}
					return queued(a) == i+1 && standing == i+1
				})
			}
			for _, gone := range busy {
				gone()
			}
			wg.Wait()
			var order []string
			ran := map[string]int{}
			var seen []enginetest.Seen
			seen = append(append(seen, mine.Requests()...), theirs.Requests()...)
			for _, s := range seen {
				if at := strings.Index(string(s.Body), "number-"); at >= 0 {
					order = append(order, s.Time.Format("05.000000000")+" "+string(s.Body[at:at+8]))
					ran[string(s.Body[at:at+8])]++
				}
			}
			if len(ran) != waiters || len(order) != waiters {
				t.Errorf("ran %v", ran)
			}
			if local == 0 {
				for i, s := range order {
					if !strings.HasSuffix(s, fmt.Sprint("number-", i)) {
						t.Errorf("order %v", order)
						break
					}
				}
			}
			for _, r := range a.g.Requests(100) {
				if strings.HasPrefix(r.Task, "w") && (r.QueueMS == nil || *r.QueueMS <= 0) {
					t.Errorf("row %+v", r)
				}
			}
			if local > 0 && (asked(mine, "/v1/chat/completions") < 3 || asked(theirs, "/v1/chat/completions") < 3) {
				t.Errorf("one of both seats was left out: %d and %d", asked(mine, ""), asked(theirs, ""))
			}
		})
	}
}

// queued is how many requests wait for model m at this entry.
func queued(p *peer) int {
	doc := p.do("GET", "/v1/fleet/capacity?model=m", "")
	var v struct{ Models []struct{ Queued int } }
	doc.into(&v)
	if len(v.Models) == 0 {
		return -1
	}
	return v.Models[0].Queued
}

func TestTheLineOfAnEntryIsBounded(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 2})
	fl := newFleet(t, nil, spec{change: func(c *gateway.Config) { c.QueueMax, c.QueueTimeout = 2, 10*time.Second }}, spec{models: model("m", 1, f.URL())})
	a := fl.peers[0]
	gone := a.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	defer gone()
	a.row("busy", "generating")
	a.seesFree("id-b", "m", 0)
	before := asked(f, "")
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			wantError(t, a.post("/v1/chat/completions", chat("m", "hi", "")), false, 429, "rate_limit_error", "queue_timeout")
		})
		a.until("in line", func() bool { return queued(a) == i+1 })
	}
	// Both come while the two are in line still.
	wantError(t, a.post("/v1/chat/completions", chat("m", "hi", "")), false, 429, "rate_limit_error", "queue_full")
	wantError(t, a.post("/v1/responses", ask("/v1/responses", "m", "")), false, 503, "server_error", "queue_full")
	wg.Wait()
	if asked(f, "") != before {
		t.Error("a request that never had a slot reached the engine")
	}
}

// TestNobodyWaitsAtAnEntryWhereNoneMay, not even the first in line; what finds a free slot is served.
func TestNobodyWaitsAtAnEntryWhereNoneMay(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 2})
	fl := newFleet(t, nil, spec{change: func(c *gateway.Config) { c.QueueMax = -1 }}, spec{models: model("m", 1, f.URL())})
	a := fl.peers[0]
	gone := a.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	defer gone()
	a.row("busy", "generating")
	a.seesFree("id-b", "m", 0)
	wantError(t, a.post("/v1/chat/completions", chat("m", "hi", "")), false, 429, "rate_limit_error", "queue_full")
}

// TestAClientThatLeavesFreesTheMembersEngine: in the entry's line, in the member's prefill and in its generation.
func TestAClientThatLeavesFreesTheMembersEngine(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"}", `,"stream":true}`} {
		t.Run("prefill"+more, func(t *testing.T) {
			t.Parallel()
			f := fake(t, enginetest.Options{Slots: 1, PrefillTPS: 500, Batch: 32})
			fl := newFleet(t, nil, spec{}, spec{models: model("m", 1, f.URL())})
			gone := fl.peers[0].leaving("/v1/chat/completions", long("m", strings.Repeat("x", 7000))+more, "t")
			fl.peers[1].until("in prefill", func() bool { r := fl.peers[1].row("t", "prefill"); return r.PromptTokens != nil })
			leaves(t, fl, f, gone)
		})
		t.Run("generating"+more, func(t *testing.T) {
			t.Parallel()
			f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 50})
			fl := newFleet(t, nil, spec{}, spec{models: model("m", 1, f.URL())})
			gone := fl.peers[0].leaving("/v1/chat/completions", long("m", "x")+more, "t")
			fl.peers[1].row("t", "generating")
			leaves(t, fl, f, gone)
		})
		t.Run("queued"+more, func(t *testing.T) {
			t.Parallel()
			f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 2})
			fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 1, f.URL())})
			a := fl.peers[0]
			first := a.leaving("/v1/chat/completions", long("m", "x")+more, "first")
			fl.peers[1].row("first", "generating")
			a.seesFree("id-b", "m", 0)
			before := asked(f, "")
			second := a.leaving("/v1/chat/completions", long("m", "y")+more, "second")
			a.until("in line", func() bool { return queued(a) == 1 })
			second()
			a.until("out of line", func() bool { return queued(a) == 0 })
			if r := a.row("second", "done"); r.Status != 499 || asked(f, "") != before {
				t.Errorf("row %+v", r)
			}
			leaves(t, fl, f, first)
		})
	}
}

// leaves checks that the engine is rid of a request within a second of its client's leaving.
func leaves(t *testing.T, fl *fleet, f *enginetest.Server, gone func()) {
	t.Helper()
	begin := time.Now()
	gone()
	fl.peers[1].until("cancelled", func() bool { return f.Stats().Cancelled == 1 })
	t.Logf("the engine knew after %v", time.Since(begin).Round(time.Millisecond))
	for _, p := range fl.peers {
		freed(&p.node)
	}
}

// TestTheEntryKeepsAClientAliveWhileAMemberWorks: its own keep-alives before the first answer byte, one beginning of a
// response, and the answer whole behind them.
func TestTheEntryKeepsAClientAliveWhileAMemberWorks(t *testing.T) {
	t.Parallel()
	quick := func(c *gateway.Config) {
		c.QueueTimeout, c.WarmWait, c.KeepAlive = time.Second, time.Minute, 100*time.Millisecond
	}
	f := fake(t, enginetest.Options{Slots: 1, PrefillTPS: 200, Batch: 64})
	fl := newFleet(t, nil, spec{change: quick}, spec{models: model("m", 1, f.URL()), change: quick})
	text := strings.Repeat("long ", 20)
	a := fl.peers[0]
	a.known.Went("m", gateway.SessionDigest(a.g, "s"), "X-Session-Id", mesh.Spot{Node: "id-b", Backend: "m#0"}) // worth waiting for
	for path, mark := range map[string]string{"/v1/chat/completions": ": waiting", "/v1/messages": "event: ping", "/v1/responses": "event: response.in_progress"} {
		t.Run(path, func(t *testing.T) {
			a.seesFree("id-b", "m", 1)
			f.SetFaults(enginetest.Faults{Silent: true}) // until it has lasted for some of them
			body := strings.ReplaceAll(ask(path, "m", `,"stream":true`), `"hi"`, `"`+path+text+`"`)
			resp, leave := a.open(path, body, "X-Session-Id", "s")
			defer leave()
			lines := bufio.NewReader(resp.Body)
			begin := readMarks(t, lines, mark, 3)
			f.SetFaults(enginetest.Faults{})
			rest, err := io.ReadAll(lines)
			r := reply{resp.StatusCode, resp.Header, append(begin, rest...), resp.Trailer, err}
			if r.status != 200 || r.err != nil {
				t.Errorf("%d %v: %.500s", r.status, r.err, r.body)
			}
			if n := strings.Count(string(r.body), "event: response.created"); path == "/v1/responses" && n != 1 {
				t.Errorf("the response begins %d times", n)
			}
			if late, soon := r.trailer.Get("X-Viiwork-Node"), r.head.Get("X-Viiwork-Node"); late+soon != "b" || path == "/v1/chat/completions" && late == "" {
				t.Errorf("trailer %v, head %v", r.trailer, r.head)
			}
			ends := map[string]string{"/v1/chat/completions": "data: [DONE]\n\n", "/v1/messages": "\"message_stop\"}\n\n", "/v1/responses": "\n\n"}
			if !strings.HasSuffix(string(r.body), ends[path]) || strings.Contains(string(r.body), `"error"`) && path != "/v1/responses" {
				t.Errorf("%s", r.body)
			}
		})
	}
}

// TestASilentMemberIsGivenUpAndAnotherAnswers: stopped with requests at it, it neither keeps them nor gets new ones.
func TestASilentMemberIsGivenUpAndAnotherAnswers(t *testing.T) {
	t.Parallel()
	f, g := fake(t, enginetest.Options{Slots: 4, DecodeTPS: 100}), fake(t, enginetest.Options{Slots: 8, DecodeTPS: 100})
	fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 4, f.URL())}, spec{models: model("m", 8, g.URL())})
	a, c := fl.peers[0], fl.peers[2]
	c.host.freeze()
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			r := a.post("/v1/chat/completions", chat("m", fmt.Sprint("n", i), ""))
			if r.status != 200 || r.head.Get("X-Viiwork-Node") != "b" {
				t.Errorf("%d %v %.200s", r.status, r.head, r.body)
			}
		})
	}
	wg.Wait()
	t.Logf("24 requests took %v with one of two members stopped", time.Since(begin).Round(10*time.Millisecond))
	if s := a.sees(c.ID); !s.Quarantined {
		t.Errorf("not in quarantine: %+v", s)
	}
	if w := a.watcher.Warnings(); len(w) == 0 || w[0].ID != "mesh_quarantine" {
		t.Errorf("warnings %+v", w)
	}
	wantError(t, a.post("/v1/chat/completions?host=c", chat("m", "hi", "")), false, 503, "server_error", "host_not_ready")
	c.host.thaw()
	a.until("back", func() bool { return !a.sees(c.ID).Quarantined && a.sees(c.ID).Report != nil })
}

// TestAMemberThatDiesInTheMiddleEndsTheStreamWithAnError and is not asked again.
func TestAMemberThatDiesInTheMiddleEndsTheStreamWithAnError(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 50})
	fl := newFleet(t, nil, spec{}, spec{models: model("m", 1, f.URL())})
	a, b := fl.peers[0], fl.peers[1]
	resp, leave := a.open("/v1/chat/completions", long("m", "x")+`,"stream":true}`)
	defer leave()
	readUntil(t, resp.Body, "content")
	b.host.die()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), "member_broke_off") || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%v %s", err, rest)
	}
	a.until("stale", func() bool { return a.sees(b.ID).Report == nil })
	wantError(t, a.post("/v1/chat/completions", chat("m", "hi", "")), false, 503, "server_error", "model_not_ready")
	b.until("the engine is rid of it", func() bool { return f.Stats().Cancelled == 1 })
}

// TestADrainingNodeRoutesWhatEntersByIt, and its last seat is nobody's.
func TestADrainingNodeRoutesWhatEntersByIt(t *testing.T) {
	t.Parallel()
	f, g := fake(t, enginetest.Options{Slots: 1}), fake(t, enginetest.Options{Slots: 1})
	fl := newFleet(t, nil, spec{models: model("m", 1, f.URL())}, spec{models: model("m", 1, g.URL())})
	a, b := fl.peers[0], fl.peers[1]
	b.e.Drain(true)
	if r := b.post("/v1/chat/completions", chat("m", "hi", "")); r.status != 200 || r.head.Get("X-Viiwork-Node") != "a" {
		t.Errorf("%d %v %s", r.status, r.head, r.body)
	}
	if r := a.forward(b, "/v1/chat/completions", chat("m", "hi", ""), nil); r.status != 503 {
		t.Errorf("%d %s", r.status, r.body)
	}
	a.until("a knows", func() bool { m, ok := a.sees(b.ID).Model("m"); return ok && !m.Backends[0].Ready })
	wantError(t, a.post("/v1/chat/completions?host=b", chat("m", "hi", "")), false, 503, "server_error", "host_not_ready")
}

// TestAnUnknownMeshChangesNothing: a node whose members have other models uses its own line as if alone.
func TestAnUnknownMeshChangesNothing(t *testing.T) {
	t.Parallel()
	f, g := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 5}), fake(t, enginetest.Options{Slots: 1})
	fl := newFleet(t, nil, spec{models: model("m", 1, f.URL()), change: patient}, spec{models: model("o", 1, g.URL())})
	a := fl.peers[0]
	gone := a.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	a.row("busy", "generating")
	over := make(chan reply)
	go func() { over <- a.post("/v1/chat/completions", chat("m", "hi", "")) }()
	a.until("in the engine's line", func() bool { return a.e.Snapshot()[0].Waiting == 1 })
	gone()
	if r := <-over; r.status != 200 || r.head.Get("X-Viiwork-Route") != "only" {
		t.Errorf("%d %v", r.status, r.head)
	}
}

// TestARushIsNotSentWhereOnlyAFewFit: what is on its way to a member counts before the member can tell.
func TestARushIsNotSentWhereOnlyAFewFit(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 4, DecodeTPS: 2})
	fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 4, f.URL())})
	a, b := fl.peers[0], fl.peers[1]
	var gone []func()
	for i := range 24 {
		gone = append(gone, a.leaving("/v1/chat/completions", long("m", "x")+`,"stream":true}`, fmt.Sprint("r", i)))
	}
	a.until("the rest waits", func() bool { return queued(a) == 20 })
	if sent := len(b.g.Requests(100)); sent > 8 { // about 14 without the count; a member that is slow to tell may get a few more than fit
		t.Errorf("%d requests were sent where 4 fit", sent)
	}
	for _, leave := range gone {
		leave()
	}
	freed(&b.node)
}
