package gateway_test

import (
	"encoding/json"
	"sync"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// TestEachRequestIsHeardOfOnce with its end, however it ends: answered, refused before it has a row, or left by its client.
func TestEachRequestIsHeardOfOnce(t *testing.T) {
	fake := enginetest.New(enginetest.Options{Slots: 1, Model: "m", Context: 8192, DecodeTPS: 50, ReplyTokens: 1 << 20})
	t.Cleanup(fake.Close)
	var mu sync.Mutex
	heard := map[string][]status.Request{}
	n := start(t, model("m", 1, fake.URL()), func(c *gateway.Config) {
		c.Ear.Ended = func(r status.Request, _ gateway.Course) {
			mu.Lock()
			defer mu.Unlock()
			heard[r.ID] = append(heard[r.ID], r)
		}
	}).ready()
	const id = "X-Viiwork-Request-Id"
	want := map[string]int{}
	for body, code := range map[string]int{
		`{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"x"}]}`: 200,
		`{"model":"n","messages":[]}`: 404,
		`{"model":`:                   400,
	} {
		r := n.post("/v1/chat/completions", body)
		want[r.head.Get(id)] = code
	}
	resp, leave := n.open("/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	gone := resp.Header.Get(id)
	want[gone] = 499
	var running []status.Request
	if err := json.Unmarshal(n.do("GET", "/api/requests?running=1", "").body, &running); err != nil || len(running) != 1 || running[0].ID != gone {
		t.Errorf("running: %v, %v", running, err)
	}
	leave()
	n.until("all have ended", func() bool { mu.Lock(); defer mu.Unlock(); return len(heard) == len(want) })
	if r := n.do("GET", "/api/requests?running=1", ""); string(r.body) != "[]\n" {
		t.Errorf("running: %s", r.body)
	}
	for id, code := range want {
		if got := heard[id]; len(got) != 1 || got[0].Status != code || got[0].Entry != "one" {
			t.Errorf("%s: heard %+v, want %d once", id, got, code)
		}
	}
}
