package gateway_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"viiwork/engine/enginetest"
)

// long lasts until its client leaves: an engine that minds the end of a text may come to one by chance.
func long(model, task string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"` + task + `"}],"max_tokens":4000,"ignore_eos":true`
}

// leaving sends a request whose client goes away when gone is called.
func (n *node) leaving(path, body, task string) (gone func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		resp, err := n.client.Do(n.request("POST", path, body, "X-Viiwork-Task", task).WithContext(ctx))
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	return func() { cancel(); <-over }
}

// TestAClientThatLeavesFreesTheEngineAtEveryStage: queued, in prefill and in generation, streaming or not, the engine's
// connection is closed and the slot comes back.
func TestAClientThatLeavesFreesTheEngineAtEveryStage(t *testing.T) {
	for _, more := range []string{"}", `,"stream":true}`} {
		t.Run("generating"+more, func(t *testing.T) {
			f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
			n := start(t, model("m", 1, f.URL())).ready()
			gone := n.leaving("/v1/chat/completions", long("m", "x")+more, "t")
			n.row("t", "generating")
			gone()
			n.until("cancelled", func() bool { return f.Stats().Cancelled == 1 })
			freed(n)
		})
		t.Run("prefill"+more, func(t *testing.T) {
			f := fake(t, enginetest.Options{Slots: 1, PrefillTPS: 500, Batch: 32})
			n := start(t, model("m", 1, f.URL())).ready()
			gone := n.leaving("/v1/chat/completions", long("m", strings.Repeat("x", 7000))+more, "t")
			n.until("in prefill", func() bool {
				r := n.row("t", "prefill")
				return r.PromptTokens != nil
			})
			gone()
			n.until("cancelled", func() bool { return f.Stats().Cancelled == 1 })
			freed(n)
		})
		t.Run("queued"+more, func(t *testing.T) {
			f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
			n := start(t, model("m", 1, f.URL())).ready()
			first := n.leaving("/v1/chat/completions", long("m", "first")+more, "first")
			defer first()
			n.row("first", "generating")
			before := f.Stats().Requests
			second := n.leaving("/v1/chat/completions", long("m", "second")+more, "second")
			n.until("in line", func() bool { return n.e.Snapshot()[0].Waiting == 1 })
			second()
			n.until("out of line", func() bool { return n.e.Snapshot()[0].Waiting == 0 })
			if r := n.row("second", "done"); r.Status != 499 {
				t.Errorf("row %+v", r)
			}
			first()
			n.until("cancelled", func() bool { return f.Stats().Cancelled == 1 })
			for _, s := range f.Requests()[before:] {
				if s.Path == "/v1/chat/completions" {
					t.Error("the second request reached the engine")
				}
			}
			freed(n)
		})
	}
}

// freed waits until no request is under way and every slot is free again.
func freed(n *node) {
	n.t.Helper()
	n.until("all free", func() bool {
		for _, m := range n.e.Snapshot() {
			for _, b := range m.Backends {
				for _, s := range b.Slots {
					if s.State != "free" {
						return false
					}
				}
			}
		}
		return n.g.Inflight() == 0
	})
	for _, r := range n.g.Requests(1000) {
		if r.State != "done" || r.Status == 0 {
			n.t.Errorf("row %+v", r)
		}
	}
}

func TestTheOwnerCancelsARequest(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2, DecodeTPS: 100})
	n := start(t, model("m", 2, f.URL())).ready()
	resp, leave := n.open("/v1/chat/completions", long("m", "x")+`,"stream":true}`)
	defer leave()
	readUntil(t, resp.Body, "content")
	id := resp.Header.Get("X-Viiwork-Request-Id")
	if r := n.post("/api/requests/"+id+"/cancel", ""); r.status != 200 || string(r.body) != "{\"cancelled\":true}\n" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	rest, _ := io.ReadAll(resp.Body)
	ev := events(rest)
	if len(ev) == 0 || at(ev[len(ev)-1].json(), "error", "code") != "request_cancelled" {
		t.Errorf("ends with %s", rest)
	}
	n.until("cancelled", func() bool { return f.Stats().Cancelled == 1 })
	if r, ok := n.g.Request(id); !ok || r.Status != 499 || r.Error != "request_cancelled" {
		t.Errorf("row %+v", r)
	}
	if n.g.Cancel(id) {
		t.Error("a request that is over was cancelled")
	}
	freed(n)
}

// TestHeadersThatAreNotTheEnginesStayHere, above all the one that makes it go on after its client left.
func TestHeadersThatAreNotTheEnginesStayHere(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL())).ready()
	n.post("/v1/messages?beta=true&host=one&prefer=x,y", ask("", "m", ""), "X-Conversation-Id", "keep", "Cookie", "a=b", "X-Viiwork-Task", "t", "Connection", "X-Odd", "X-Odd", "1",
		"Anthropic-Beta", "b", "Anthropic-Version", "v", "Authorization", "Bearer mine", "Accept-Encoding", "gzip")
	last := lastAsked(t, f, "/v1/messages")
	for _, name := range []string{"X-Conversation-Id", "Cookie", "X-Viiwork-Task", "X-Odd", "Origin"} {
		if last.Header.Get(name) != "" {
			t.Errorf("%s reached the engine", name)
		}
	}
	for name, want := range map[string]string{"Anthropic-Beta": "b", "Anthropic-Version": "v", "Authorization": "Bearer mine", "Accept-Encoding": "identity", "Content-Type": "application/json"} {
		if last.Header.Get(name) != want {
			t.Errorf("%s is %q", name, last.Header.Get(name))
		}
	}
	if last.Query != "beta=true" || last.Path != "/v1/messages" {
		t.Errorf("%s?%s", last.Path, last.Query)
	}
}
