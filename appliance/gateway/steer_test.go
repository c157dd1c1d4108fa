package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

func TestHostAndPrefer(t *testing.T) {
	t.Parallel()
	var specs []spec
	var fakes []*enginetest.Server
	for i := range 3 {
		f := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 100})
		fakes = append(fakes, f)
		models := model("m", 1, f.URL())
		if i == 2 {
			models = append(models, model("only-c", 1, f.URL())...)
		}
		specs = append(specs, spec{models: models, change: patient})
	}
	fl := newFleet(t, nil, specs...)
	a, c := fl.peers[0], fl.peers[2]
	calls := 0
	wants := func(query, model, node, reason string) {
		t.Helper()
		a.seesFree(c.ID, "m", 1)
		calls++ // each prompt is of another length, by which what it has left is known
		r := a.post("/v1/chat/completions"+query, chat(model, strings.Repeat("x", calls), ""))
		if node == "c" {
			defer a.knowsLeft(node, r)
		}
		if r.status != 200 || r.head.Get("X-Viiwork-Node") != node || r.head.Get("X-Viiwork-Route") != reason || r.head.Get("X-Viiwork-Origin") != "a" {
			t.Errorf("%s: %d %v %.200s", query, r.status, r.head, r.body)
		}
	}
	wants("", "m", "a", "cold")
	wants("", "only-c", "c", "only")
	wants("?host=a", "m", "a", "pinned")
	wants("?host=c", "m", "c", "pinned")
	wants("?prefer=c", "m", "c", "cold")
	wants("?prefer=nobody,c,a", "m", "c", "cold")
	wants("?prefer=nobody,"+fakes[1].URL(), "m", "a", "cold")
	for _, host := range []string{"z", fl.peers[1].Addr, fakes[1].URL(), "C", "id-c", "169.254.169.254", "localhost"} {
		r := a.post("/v1/chat/completions?host="+host, chat("m", "hi", ""))
		if r.status != 404 || at(r.json(t), "error", "code") != "host_not_found" {
			t.Errorf("%s: %d %s", host, r.status, r.body)
		}
	}
	for _, host := range []string{"b", "a"} { // another node, and the one that is asked
		doc := wantError(t, a.post("/v1/chat/completions?host="+host, chat("only-c", "hi", "")), false, 404, "invalid_request_error", "model_not_found")
		if msg := at(doc, "error", "message").(string); !strings.Contains(msg, fmt.Sprintf("node %q does not serve", host)) {
			t.Error(msg)
		}
	}

	gone := c.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	c.row("busy", "generating")
	a.seesFree(c.ID, "m", 0)
	if r := a.post("/v1/chat/completions?prefer=c", chat("m", "hi", "")); r.head.Get("X-Viiwork-Node") != "a" {
		t.Errorf("a full preferred node: %v", r.head)
	}
	over := make(chan reply)
	go func() { over <- a.post("/v1/chat/completions?host=c", chat("m", "pinned", "")) }()
	a.until("waits for that node", func() bool { return queued(a) == 1 })
	select {
	case r := <-over:
		t.Fatalf("a pinned request did not wait: %d %v", r.status, r.head)
	default:
	}
	gone()
	if r := <-over; r.status != 200 || r.head.Get("X-Viiwork-Node") != "c" {
		t.Errorf("%d %v %s", r.status, r.head, r.body)
	}
}

// knowsLeft waits until p has been told what an answer has left at its node. That comes behind the word that the slot was
// taken: without it a slot that seems free may be so since before.
func (p *peer) knowsLeft(node string, r reply) {
	p.t.Helper()
	var doc struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
		}
	}
	r.into(&doc)
	p.until("what the answer left is told", func() bool {
		return slices.ContainsFunc(p.g.Sessions(1000), func(s status.Session) bool {
			return s.Node == node && s.Tokens != nil && *s.Tokens == doc.Usage.Prompt+doc.Usage.Output
		})
	})
}

// TestAConversationIsKnownAcrossTheMesh: the reason says whether it is where it was.
func TestAConversationIsKnownAcrossTheMesh(t *testing.T) {
	t.Parallel()
	f, g := fake(t, enginetest.Options{Slots: 4}), fake(t, enginetest.Options{Slots: 4})
	fl := newFleet(t, nil, spec{}, spec{models: model("m", 4, f.URL())}, spec{models: model("m", 4, g.URL())})
	a := fl.peers[0]
	first := ""
	for i, want := range []string{"cold", "home", "home", "home"} {
		a.seesFree("id-b", "m", 4)
		a.seesFree("id-c", "m", 4)
		r := a.post("/v1/chat/completions", chat("m", "hi", ""), "X-Session-Id", "s")
		if first == "" {
			first = r.head.Get("X-Viiwork-Node")
		}
		if r.head.Get("X-Viiwork-Route") != want || r.head.Get("X-Viiwork-Node") != first || r.head.Get("X-Viiwork-Key") != "X-Session-Id" {
			t.Errorf("%d: %v", i, r.head)
		}
	}
	other := "b"
	if first == "b" {
		other = "c"
	}
	if r := a.post("/v1/chat/completions?prefer="+other, chat("m", "hi", ""), "X-Session-Id", "s"); r.head.Get("X-Viiwork-Route") != "move" || r.head.Get("X-Viiwork-Node") != other {
		t.Errorf("%v", r.head)
	}
}

func TestTheWholeMeshIsListed(t *testing.T) {
	t.Parallel()
	f, g := fake(t, enginetest.Options{Slots: 2, Context: 4096}), fake(t, enginetest.Options{Slots: 3, Context: 2048})
	named := func(digest string) func(*gateway.Config) {
		return func(c *gateway.Config) { c.Digest = func(string) string { return digest } }
	}
	fl := newFleet(t, nil, spec{},
		spec{models: append(model("org/m", 2, f.URL()), model("alone", 2, f.URL())...), change: named("sha256:aa")},
		spec{models: model("org/m", 3, g.URL()), change: named("sha256:bb")})
	for _, p := range fl.peers {
		p.until("all slots are free", func() bool { // of two models at one server each may have found the other one trying it
			return at(p.do("GET", "/v1/models/org%2Fm", "").json(t), "viiwork", "free") == 5.0
		})
		doc := p.do("GET", "/v1/models", "").json(t)
		if len(at(doc, "data").([]any)) != 2 {
			t.Fatalf("%s: %v", p.Name, doc)
		}
		one := p.do("GET", "/v1/models/org%2Fm", "").json(t)
		if at(one, "context_length") != 2048.0 || at(one, "viiwork", "slots") != 5.0 || at(one, "viiwork", "free") != 5.0 || len(at(one, "viiwork", "hosts").([]any)) != 2 || at(one, "viiwork", "state") != "ready" {
			t.Errorf("%s: %v", p.Name, one)
		}
		capacity := p.do("GET", "/v1/fleet/capacity?model=org/m", "").json(t)
		if m := at(capacity, "models", 0); at(m, "slots") != 5.0 || at(m, "busy") != 0.0 || at(m, "free") != 5.0 || at(m, "queued") != 0.0 || at(m, "ctx") != 2048.0 || at(m, "hosts", 0, "stale") != false {
			t.Errorf("%s: %v", p.Name, capacity)
		}
		if at(capacity, "view") != p.Name || at(capacity, "stale_after_s") != 3.0 {
			t.Errorf("%v", capacity)
		}
		info := p.do("GET", "/v1/model/info", "").json(t)
		if len(at(info, "data").([]any)) != 2 || at(info, "data", 0, "model_info", "max_input_tokens") == nil {
			t.Errorf("%v", info)
		}
		catalogue := p.do("GET", "/api.json", "").json(t)
		if at(catalogue, "viiwork", "models", "org/m", "limit", "context") != 2048.0 || at(catalogue, "viiwork", "api") != p.url+"/v1" {
			t.Errorf("%v", catalogue)
		}
		wantError(t, p.do("GET", "/v1/fleet/capacity?model=none", ""), false, 404, "invalid_request_error", "model_not_found")
		w := p.g.Warnings()
		if len(w) != 1 || w[0].ID != "model_digest" || !strings.Contains(w[0].Text, "sha256:aa on b") || !strings.Contains(w[0].Text, "sha256:bb on c") {
			t.Errorf("%s: %+v", p.Name, w)
		}
	}
	doc := wantError(t, fl.peers[0].post("/v1/chat/completions", chat("0rg/m", "hi", "")), false, 404, "invalid_request_error", "model_not_found")
	if msg := at(doc, "error", "message").(string); !strings.Contains(msg, `"org/m"`) {
		t.Error(msg)
	}
}
