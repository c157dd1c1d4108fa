package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/route"
	"viiwork/engine"
	"viiwork/engine/enginetest"
)

func classic(c *gateway.Config) {
	c.Policy, c.QueueTimeout, c.WarmWait = route.Classic, time.Minute, time.Minute
}

// TestClassicWaitsInTheEntrysOwnLine: in no member's, by its rank, without planning all the time, and served in
// their order.
func TestClassicWaitsInTheEntrysOwnLine(t *testing.T) {
	t.Parallel()
	o := enginetest.Options{Slots: 1, KeepBodies: true, DecodeTPS: 15}
	f, g := fake(t, o), fake(t, o)
	fl := newFleet(t, nil, spec{change: classic}, spec{models: model("m", 1, f.URL())}, spec{models: model("m", 1, g.URL())})
	a, b, c := fl.peers[0], fl.peers[1], fl.peers[2]
	var busy []func()
	for i := range 2 {
		busy = append(busy, a.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, fmt.Sprint("busy", i)))
		a.row(fmt.Sprint("busy", i), "generating")
	}
	a.seesFree(b.ID, "m", 0)
	a.seesFree(c.ID, "m", 0)
	const waiters = 4
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			r := a.post("/v1/chat/completions", chat("m", fmt.Sprintf("number-%d.", i), ""), "X-Viiwork-Task", fmt.Sprint("w", i))
			if r.status != 200 {
				t.Errorf("%d: %d %.200s", i, r.status, r.body)
			}
		})
		a.until("it waits at its entry", func() bool {
			row := a.row(fmt.Sprint("w", i), "queued")
			return row.WaitsAt == "a" && row.Place != nil && *row.Place == i+1
		})
	}
	plans, beats := a.g.Plans(), 0
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); beats++ {
		<-a.table.Changed()
	}
	if n := a.g.Plans() - plans; n > uint64(waiters*(beats+10)) {
		t.Errorf("%d plans were made for %d who wait, in 1.5 s with %d news", n, waiters, beats)
	}
	if b.waiting()+c.waiting() > 0 {
		t.Errorf("%d and %d stand in the members' lines", b.waiting(), c.waiting())
	}
	for _, gone := range busy {
		gone()
	}
	wg.Wait()
	for _, s := range []*enginetest.Server{f, g} {
		last := -1
		for _, r := range s.Requests() {
			at := strings.Index(string(r.Body), "number-")
			if at < 0 {
				continue
			}
			if n := int(r.Body[at+7] - '0'); n < last {
				t.Errorf("%d was served after %d", n, last)
			} else {
				last = n
			}
		}
	}
	for _, r := range a.g.Requests(100) {
		if strings.HasPrefix(r.Task, "w") && (r.QueueMS == nil || *r.QueueMS <= 0 || r.WaitsAt != "" || r.Place != nil) {
			t.Errorf("row %+v", r)
		}
	}
}

// TestClassicDoesNotWaitLongerForAHome: it waits for any slot.
func TestClassicDoesNotWaitLongerForAHome(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL()), homely, func(c *gateway.Config) {
		c.Policy, c.QueueTimeout, c.WarmWait = route.Classic, 200*time.Millisecond, time.Hour
	}).ready()
	busy, err := n.e.Queue(engine.Request{Model: "m"}) // no request: on a busy machine it may not get to its slot in that time
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Leave()
	<-busy.Done()
	wantError(t, n.post("/v1/chat/completions", chat("m", "hi", ""), "X-Session-Id", "s"), false, 429, "rate_limit_error", "queue_timeout")
}

// TestConversationsAreForgottenWhereTheOwnerWantsIt, under both policies.
func TestConversationsAreForgottenWhereTheOwnerWantsIt(t *testing.T) {
	t.Parallel()
	for _, policy := range []route.Policy{route.Classic, route.Cost} {
		for _, forget := range []bool{false, true} {
			f, g := fake(t, enginetest.Options{Slots: 2}), fake(t, enginetest.Options{Slots: 2})
			models := append(model("m", 2, f.URL()), model("other", 2, g.URL())...)
			models[0].Backends = append(models[0].Backends, models[0].Backends[0])
			n := start(t, models, func(c *gateway.Config) { c.Policy, c.Forget = policy, forget }).ready()
			want := map[bool]string{false: "home", true: "cold"}[forget]
			n.post("/v1/chat/completions", chat("m", "hi", ""), "X-Session-Id", "s")
			if r := n.post("/v1/chat/completions", chat("m", "hi", ""), "X-Session-Id", "s"); r.head.Get("X-Viiwork-Route") != want {
				t.Errorf("%s, forget %v: %v", policy, forget, r.head)
			}
		}
	}
}
