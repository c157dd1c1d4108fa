package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine"
	"viiwork/engine/enginetest"
)

// called gives a node aliases, by twos: name and model.
func called(names ...string) func(*gateway.Config) {
	targets := map[string]string{}
	for i := 0; i+1 < len(names); i += 2 {
		targets[names[i]] = names[i+1]
	}
	return func(c *gateway.Config) { c.Aliases = func() map[string]string { return targets } }
}

// TestRequestsRunThroughAnAlias: on every route, streaming or not, at the node that has the model and from an entry that
// has not, to a member that has never heard of the alias. The engine is asked for the model.
func TestRequestsRunThroughAnAlias(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, Embeddings: true, Rerank: true, KeepBodies: true})
	fl := newFleet(t, nil, spec{change: called("team/coder", "org/m")}, spec{models: model("org/m", 2, f.URL())},
		spec{models: model("other", 1, f.URL()), change: called("team/coder", "other")})
	a, b, c := fl.peers[0], fl.peers[1], fl.peers[2]
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/infill", "/v1/embeddings", "/tokenize", "/apply-template", "/v1/messages/count_tokens"} {
		for _, more := range []string{"", `,"stream":true`} {
			t.Run(path+more, func(t *testing.T) {
				more += `,"input_prefix":"x","input_suffix":"y","content":"hi"`
				direct, through := b.post(path, ask(path, "org/m", more)), a.post(path, ask(path, "team/coder", more))
				if through.err != nil || through.status != 200 || direct.status != 200 {
					t.Fatalf("%d %v, direct %d: %.300s", through.status, through.err, direct.status, through.body)
				}
				if x, y := bones(direct.body), bones(through.body); x != y {
					t.Errorf("direct  %s\nthrough %s", x, y)
				}
				for name, want := range map[string]string{"X-Viiwork-Node": "b", "X-Viiwork-Model": "org/m", "X-Viiwork-Alias": "team/coder"} {
					if got := through.head.Get(name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				for _, p := range []*peer{a, b} {
					if row, _ := p.g.Request(through.head.Get("X-Viiwork-Request-Id")); row.Model != "org/m" || row.Alias != "team/coder" || row.Status != 200 {
						t.Errorf("row at %s: %+v", p.Name, row)
					}
				}
				if direct.head.Get("X-Viiwork-Alias") != "" {
					t.Error("a model's own name is called an alias")
				}
			})
		}
	}
	if r := c.post("/v1/chat/completions", ask("", "team/coder", "")); r.status != 200 || r.head.Get("X-Viiwork-Backend") != "other#0" {
		t.Errorf("at the node that has the model: %d %v", r.status, r.head)
	}
	for _, s := range f.Requests() {
		if bytes.Contains(s.Body, []byte("team/coder")) {
			t.Fatalf("the engine was asked for the alias: %s", s.Body)
		}
	}
}

// TestAnAliasMayStandForAnyModelsName, also for one that is not plain ASCII.
func TestAnAliasMayStandForAnyModelsName(t *testing.T) {
	t.Parallel()
	const name = `org/modèle "七"`
	f := fake(t, enginetest.Options{Slots: 2})
	fl := newFleet(t, nil, spec{change: called("uni", name)}, spec{models: model(name, 2, f.URL())})
	if r := fl.peers[0].post("/v1/messages", ask("", "uni", "")); r.status != 200 || r.head.Get("X-Viiwork-Node") != "b" {
		t.Errorf("%d %v %s", r.status, r.head, r.body)
	}
}

// TestOnlyTheModelsNameIsReplaced, wherever and however often it stands in the body.
func TestOnlyTheModelsNameIsReplaced(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, Embeddings: true, KeepBodies: true})
	n := start(t, model("a \"m\"", 2, f.URL()), called("coder", "a \"m\"")).ready()
	for body, want := range map[string]string{
		`{"input":"coder","model":"coder","x":{"model":"coder"}}`: `{"input":"coder","model":"a \"m\"","x":{"model":"coder"}}`,
		` {"model" : "x", "input":"hi", "mo\u0064el":"coder" }`:   ` {"model" : "a \"m\"", "input":"hi", "mo\u0064el":"a \"m\"" }`,
	} {
		if r := n.post("/v1/embeddings", body); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if got := string(lastAsked(t, f, "/v1/embeddings").Body); got != want {
			t.Errorf("sent %s\nwant %s", got, want)
		}
	}
}

// TestAnAliasTravelsWithTheClientsOwnBytes: what a member gets is the client's body, and in a signed header the model.
func TestAnAliasTravelsWithTheClientsOwnBytes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var body []byte
	var head http.Header
	r := newRogue(t, 2, "org/m", func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ = io.ReadAll(req.Body)
		head = req.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	})
	fl := newFleet(t, []mesh.Member{r.Member}, spec{change: called("coder", "org/m")})
	sent := chat("coder", "hi", `, "unknown" : [1,  2]`)
	if got := fl.peers[0].post("/v1/chat/completions", sent); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	mu.Lock()
	defer mu.Unlock()
	if string(body) != sent || head.Get("X-Viiwork-Model") != "org%2Fm" {
		t.Errorf("%s\n%v", body, head)
	}
}

// TestAModelBeatsAnAlias of the same name, here or at another node, and the owner is told.
func TestAModelBeatsAnAlias(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2})
	fl := newFleet(t, nil, spec{models: model("mine", 2, f.URL()), change: called("mine", "theirs", "theirs", "mine")}, spec{models: model("theirs", 2, f.URL())})
	a := fl.peers[0]
	for name, node := range map[string]string{"mine": "a", "theirs": "b"} {
		r := a.post("/v1/chat/completions", ask("", name, ""))
		if r.status != 200 || r.head.Get("X-Viiwork-Node") != node || r.head.Get("X-Viiwork-Model") != name || r.head.Get("X-Viiwork-Alias") != "" {
			t.Errorf("%s: %d %v", name, r.status, r.head)
		}
	}
	var list struct{ Data []struct{ ID string } }
	a.do("GET", "/v1/models", "").into(&list)
	if len(list.Data) != 2 {
		t.Errorf("listed %+v", list)
	}
	var shadowed []string
	for _, w := range a.g.Warnings() {
		if w.ID == "alias_shadowed" {
			shadowed = append(shadowed, w.Text)
		}
	}
	if len(shadowed) != 2 || !strings.Contains(shadowed[0], "mine") || !strings.Contains(shadowed[1], "theirs") {
		t.Errorf("warnings %q", shadowed)
	}
}

// TestAnAliasWithoutAModelNamesBoth: the client knows the one and the owner looks for the other.
func TestAnAliasWithoutAModelNamesBoth(t *testing.T) {
	t.Parallel()
	loading := fake(t, enginetest.Options{LoadFor: time.Hour})
	n := start(t, model("later", 1, loading.URL()), called("lost", "gone/model", "soon", "later", "chain", "lost"))
	n.until("loading", func() bool { return n.e.Snapshot()[0].Backends[0].State == engine.StateLoading })
	for _, api := range apis {
		for _, stream := range []string{"", `,"stream":true`} {
			for alias, want := range map[string]struct {
				status int
				target string
			}{"lost": {404, "gone/model"}, "soon": {503, "later"}, "chain": {404, "lost"}} {
				r := n.post(api.path, ask(api.path, alias, stream))
				if text := string(r.body); r.status != want.status || !strings.Contains(text, `\"`+alias+`\"`) || !strings.Contains(text, `\"`+want.target+`\"`) {
					t.Errorf("%s %s: %d %s", api.path, alias, r.status, r.body)
				}
			}
		}
	}
}

// TestAliasesAreListedWithTheModels: clients that offer what is listed offer them.
func TestAliasesAreListedWithTheModels(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 3, Context: 4096})
	fl := newFleet(t, nil, spec{change: called("team/coder", "org/m", "lost", "gone")}, spec{models: model("org/m", 3, f.URL())})
	a := fl.peers[0]
	a.seesFree("id-b", "org/m", 3)
	var list struct{ Data []json.RawMessage }
	a.do("GET", "/v1/models", "").into(&list)
	if len(list.Data) != 3 {
		t.Fatalf("%s", list.Data)
	}
	for path, want := range map[string][]any{
		"/v1/models/team/coder":   {"id", "team/coder", "context_length", 4096.0, "viiwork.alias_of", "org/m", "viiwork.state", "ready", "viiwork.free", 3.0},
		"/v1/models/team%2Fcoder": {"id", "team/coder", "viiwork.alias_of", "org/m"},
		"/v1/models/lost":         {"id", "lost", "viiwork.alias_of", "gone", "viiwork.state", "missing"},
		"/v1/models/org/m":        {"id", "org/m", "viiwork.alias_of", nil},
		"/v1/fleet/capacity?model=team/coder": {"models.0.name", "team/coder", "models.0.alias_of", "org/m", "models.0.slots", 3.0,
			"models.0.free", 3.0, "models.0.hosts.0.node", "b", "models.1", nil},
		"/v1/fleet/capacity": {"models.0.name", "org/m", "models.0.alias_of", nil, "models.1", nil},
		"/v1/model/info":     {"data.1.model_name", "lost", "data.2.model_name", "team/coder", "data.2.model_info.max_tokens", 4096.0},
		"/api.json":          {"viiwork.models.team/coder.limit.context", 4096.0, "viiwork.models.lost.limit.context", 0.0},
	} {
		doc := a.do("GET", path, "").json(t)
		for i := 0; i < len(want); i += 2 {
			var steps []any
			for _, step := range strings.Split(want[i].(string), ".") {
				if step == "0" || step == "1" || step == "2" {
					steps = append(steps, int(step[0]-'0'))
				} else {
					steps = append(steps, step)
				}
			}
			if got := at(doc, steps...); got != want[i+1] {
				t.Errorf("%s: %s is %v, want %v", path, want[i], got, want[i+1])
			}
		}
	}
	for name, near := range map[string]string{"team/codre": `"team/coder"`, "lots": "lists those there are"} {
		doc := wantError(t, a.post("/v1/chat/completions", ask("", name, "")), false, 404, "invalid_request_error", "model_not_found")
		if msg, _ := at(doc, "error", "message").(string); !strings.Contains(msg, near) {
			t.Errorf("%s: %s", name, msg)
		}
	}
}
