package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

// waiting is how many stand in this node's own line for its first model.
func (p *peer) waiting() int { return p.e.Snapshot()[0].Waiting }

func (p *peer) free() int {
	n := 0
	for _, s := range p.e.Snapshot()[0].Backends[0].Slots {
		if s.State == "free" {
			n++
		}
	}
	return n
}

// TestWaitersFromThreeEntriesAreServedInTheirOrder at the node they wait for, its own among them.
func TestWaitersFromThreeEntriesAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, KeepBodies: true, DecodeTPS: 10})
	fl := newFleet(t, nil, spec{models: model("m", 1, f.URL()), change: patient}, spec{change: patient}, spec{change: patient})
	owner := fl.peers[0]
	gone := owner.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	owner.row("busy", "generating")
	for _, p := range fl.peers[1:] {
		p.seesFree(owner.ID, "m", 0)
	}
	var wg sync.WaitGroup
	const waiters = 9
	for i := range waiters {
		wg.Go(func() {
			r := fl.peers[i%3].post("/v1/chat/completions", chat("m", fmt.Sprintf("number-%d.", i), ""))
			if r.status != 200 {
				t.Errorf("%d: %d %.200s", i, r.status, r.body)
			}
		})
		owner.until("in line", func() bool { return owner.waiting() == i+1 })
	}
	gone()
	wg.Wait()
	next := 0
	for _, s := range f.Requests() {
		if strings.Contains(string(s.Body), "number-") {
			if !strings.Contains(string(s.Body), fmt.Sprintf("number-%d.", next)) {
				t.Fatalf("not number %d: %s", next, s.Body)
			}
			next++
		}
	}
	if st := f.Stats(); next != waiters || st.Oversubscribed != 0 || st.MaxActive > 1 {
		t.Errorf("%d ran, %+v", next, st)
	}
}

// TestWhoWaitsSeesItsPlace, and leaves the line for a seat that it got elsewhere.
func TestWhoWaitsSeesItsPlace(t *testing.T) {
	t.Parallel()
	slow := enginetest.Options{Slots: 1, DecodeTPS: 5}
	f, g := fake(t, slow), fake(t, slow)
	fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 1, f.URL())}, spec{models: model("m", 1, g.URL())})
	a, owners := fl.peers[0], map[string]*peer{"b": fl.peers[1], "c": fl.peers[2]}
	ends := map[string]func(){}
	for _, p := range fl.peers[1:] {
		ends[p.Name] = p.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
		p.row("busy", "generating")
		a.seesFree(p.ID, "m", 0)
	}
	over := make(chan reply, 1)
	go func() { over <- a.post("/v1/chat/completions", chat("m", "hi", ""), "X-Viiwork-Task", "first") }()
	var at string
	a.until("it shows its place", func() bool {
		r := a.row("first", "queued")
		at = r.WaitsAt
		return r.Place != nil && *r.Place == 1 && at != ""
	})
	there := owners[at]
	if there.waiting() != 1 {
		t.Fatalf("%d wait at %s", there.waiting(), at)
	}
	for other, end := range ends {
		if other != at {
			end()
		}
	}
	r := <-over
	if r.status != 200 || r.head.Get("X-Viiwork-Node") == at {
		t.Errorf("%d %v", r.status, r.head)
	}
	there.until("the line is empty", func() bool { return there.waiting() == 0 })
	if row, _ := a.g.Request(r.head.Get("X-Viiwork-Request-Id")); row.WaitsAt != "" || row.Place != nil || row.ExpectedWaitMS != nil || row.QueueMS == nil || *row.QueueMS <= 0 {
		t.Errorf("%+v", row)
	}
	ends[at]()
}

// asks asks an owner for a seat as a member does.
func (p *peer) asks(to *peer) mesh.Grant {
	p.t.Helper()
	g, err := p.client2.AskSeat(context.Background(), to.Member, mesh.Ask{Model: "m"}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return g
}

// forwardLeased sends a request as a member does that has been granted a seat.
func (p *peer) forwardLeased(to *peer, lease string) reply {
	p.t.Helper()
	body := chat("m", "hi", "")
	req, err := http.NewRequest("POST", to.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Viiwork-Hop", "1")
	req.Header.Set("X-Viiwork-Model", "m")
	req.Header.Set("X-Viiwork-Lease", lease)
	p.signer.Sign(req, to.ID, sha256.Sum256([]byte(body)))
	return p.send(req)
}

// TestALeaseIsForOneForwardOfOneNode: whoever else shows it, or shows it again, has none.
func TestALeaseIsForOneForwardOfOneNode(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	fl := newFleet(t, nil, spec{models: model("m", 1, f.URL())}, spec{}, spec{})
	owner, b, c := fl.peers[0], fl.peers[1], fl.peers[2]
	g := b.asks(owner)
	if owner.free() != 0 {
		t.Fatal("the granted seat is free")
	}
	if r := c.forwardLeased(owner, g.ID); r.status != 429 {
		t.Errorf("another node used it: %d %s", r.status, r.body)
	}
	if r := b.forwardLeased(owner, g.ID); r.status != 200 {
		t.Errorf("its own node could not use it: %d %s", r.status, r.body)
	}
	owner.until("the seat is free", func() bool { return owner.free() == 1 })
	held := c.asks(owner)
	if r := b.forwardLeased(owner, g.ID); r.status != 429 {
		t.Errorf("it was used twice: %d %s", r.status, r.body)
	}
	if err := c.client2.ReturnSeat(t.Context(), owner.Member, held.ID); err != nil {
		t.Error(err)
	}
	owner.until("the returned seat is free", func() bool { return owner.free() == 1 })
	late := b.asks(owner)
	owner.until("it has lapsed", func() bool { return owner.free() == 1 })
	other := c.asks(owner)
	if r := b.forwardLeased(owner, late.ID); r.status != 429 {
		t.Errorf("it was used after its lapse: %d %s", r.status, r.body)
	}
	if r := c.forwardLeased(owner, other.ID); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if st := f.Stats(); st.Oversubscribed != 0 || st.MaxActive > 1 {
		t.Errorf("%+v", st)
	}
}

// TestAForwardWhoseBodyDoesNotComeHoldsNoSeat for long.
func TestAForwardWhoseBodyDoesNotComeHoldsNoSeat(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2})
	fl := newFleet(t, nil, spec{models: model("m", 2, f.URL())}, spec{})
	owner, b := fl.peers[0], fl.peers[1]
	g, body := b.asks(owner), chat("m", "hi", "")
	req, _ := http.NewRequest("POST", owner.url+"/v1/chat/completions", strings.NewReader(body))
	req.Header.Set("X-Viiwork-Hop", "1")
	req.Header.Set("X-Viiwork-Model", "m")
	req.Header.Set("X-Viiwork-Lease", g.ID)
	b.signer.Sign(req, owner.ID, sha256.Sum256([]byte(body)))
	conn, err := net.Dial("tcp", owner.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", owner.Addr, len(body))
	_ = req.Header.Write(conn)
	_, _ = io.WriteString(conn, "\r\n"+body[:3])
	owner.until("it came for its seat", func() bool { return owner.g.Inflight() == 1 })
	b.asks(owner) // granted later and not used
	owner.until("a grant that is not used has lapsed", func() bool { return owner.free() > 0 })
	if owner.free() != 1 {
		t.Error("the seat was gone although its headers had come")
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%v %v", resp, err)
	}
	if owner.free() != 2 { // though the rest of the body may still come
		t.Error("the refused request holds its seat")
	}
}

// TestASilentEntryLosesItsSeatsAndItsPlaces, and nobody else theirs.
func TestASilentEntryLosesItsSeatsAndItsPlaces(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, DecodeTPS: 5, KeepBodies: true})
	wait := func(c *gateway.Config) { c.QueueTimeout = 2 * time.Minute }
	fl := newFleet(t, nil, spec{models: model("m", 2, f.URL())}, spec{change: wait}, spec{change: wait})
	owner, dead, alive := fl.peers[0], fl.peers[1], fl.peers[2]
	for _, p := range fl.peers[1:] {
		defer p.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")()
		p.row("busy", "generating")
	}
	alive.seesFree(owner.ID, "m", 0)
	dead.seesFree(owner.ID, "m", 0)
	defer dead.leaving("/v1/chat/completions", long("m", "of the dead")+`,"stream":true}`, "waits")()
	owner.until("its place", func() bool { return owner.waiting() == 1 })
	over := make(chan reply, 1)
	go func() {
		over <- alive.post("/v1/chat/completions", `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"of the living"}]}`)
	}()
	owner.until("the other's place", func() bool { return owner.waiting() == 2 })
	dead.host.freeze() // it is not heard any more, and no connection ends
	begun := time.Now()
	if r := <-over; r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	took := time.Since(begun)
	t.Logf("the seat of a silent entry served another after %s", took.Round(100*time.Millisecond))
	if took < 8*time.Second {
		t.Error("it lost its seat too early")
	}
	if owner.waiting() != 0 {
		t.Errorf("%d still wait", owner.waiting())
	}
	for _, s := range f.Requests() {
		if strings.Contains(string(s.Body), "of the dead") {
			t.Error("the place of a silent entry was served")
		}
	}
	if r := alive.row("busy", "generating"); r.Status != 0 {
		t.Errorf("the other entry's stream was ended: %+v", r)
	}
}

// TestWhoWaitsAtADrainingNodeGoesElsewhere: the end of a line is no refusal while another node has one.
func TestWhoWaitsAtADrainingNodeGoesElsewhere(t *testing.T) {
	t.Parallel()
	slow := enginetest.Options{Slots: 1, DecodeTPS: 5}
	f, g := fake(t, slow), fake(t, slow)
	fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 1, f.URL())}, spec{models: model("m", 1, g.URL())})
	a, owners := fl.peers[0], map[string]*peer{"b": fl.peers[1], "c": fl.peers[2]}
	ends := map[string]func(){}
	for name, p := range owners {
		ends[name] = p.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
		p.row("busy", "generating")
		a.seesFree(p.ID, "m", 0)
	}
	over := make(chan reply, 1)
	go func() { over <- a.post("/v1/chat/completions", chat("m", "hi", ""), "X-Viiwork-Task", "waits") }()
	var first string
	a.until("it stands in a line", func() bool { first = a.row("waits", "queued").WaitsAt; return first != "" })
	owners[first].e.Drain(true)
	owners[first].e.Drain(true)
	a.until("it stands in the other line", func() bool { w := a.row("waits", "queued").WaitsAt; return w != "" && w != first })
	for _, end := range ends {
		end()
	}
	if r := <-over; r.status != 200 || r.head.Get("X-Viiwork-Node") == first {
		t.Errorf("%d %v", r.status, r.head)
	}
	owners[first].e.Drain(false)
	a.seesFree(owners[first].ID, "m", 1)
}
