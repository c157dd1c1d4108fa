package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/enginetest"
)

// talk is a conversation with a model.
type talk struct {
	t        testing.TB
	name     string
	keyed    bool
	messages []map[string]string
	at       string // node and backend of its last turn
	context  int    // tokens of its last turn
}

func newTalk(t testing.TB, name string, keyed bool, length int) *talk {
	text := strings.Repeat(name+" ", length/(len(name)+1)+1)[:length]
	return &talk{t: t, name: name, keyed: keyed, messages: []map[string]string{
		{"role": "system", "content": strings.Repeat("all agents begin alike. ", 20)}, {"role": "user", "content": text},
	}}
}

// turn is the next one, through a node. It gives where it ran, and which share of what the turn before had was cached.
func (c *talk) turn(n *node) (moved bool, share float64) {
	c.t.Helper()
	r := n.post("/v1/chat/completions", c.asks(map[string]any{"max_tokens": 16}), c.head()...)
	var doc struct {
		Choices []struct {
			Message struct{ Content string }
		}
		Timings struct {
			Cache     int `json:"cache_n"`
			Prompt    int `json:"prompt_n"`
			Predicted int `json:"predicted_n"`
		}
	}
	if r.into(&doc); r.status != 200 || len(doc.Choices) != 1 {
		c.t.Fatalf("%s: %d %v %.300s", c.name, r.status, r.err, r.body)
	}
	at := r.head.Get("X-Viiwork-Node") + " " + r.head.Get("X-Viiwork-Backend")
	moved, share = c.at != "" && at != c.at, 1
	if c.context > 0 {
		share = float64(doc.Timings.Cache) / float64(c.context)
	}
	c.at, c.context = at, doc.Timings.Cache+doc.Timings.Prompt+doc.Timings.Predicted
	c.messages = append(c.messages, map[string]string{"role": "assistant", "content": doc.Choices[0].Message.Content},
		map[string]string{"role": "user", "content": fmt.Sprintf("%s goes on, %d", c.name, len(c.messages))})
	return moved, share
}

// asks is the body of the next turn, with more in it.
func (c *talk) asks(more map[string]any) string {
	c.t.Helper()
	body := map[string]any{"model": "m", "messages": c.messages, "temperature": 0}
	maps.Copy(body, more)
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

func (c *talk) head() []string {
	if c.keyed {
		return []string{"X-Session-Id", c.name}
	}
	return nil
}

// known waits until all nodes have been told what the last turn left at its backend, as they are while a person reads.
func (c *talk) known(peers ...*peer) {
	c.t.Helper()
	for _, p := range peers {
		p.until("what the turn left is told to "+p.Name, func() bool {
			for _, s := range p.g.Sessions(1000) {
				if s.Tokens != nil && *s.Tokens == c.context && s.Node+" "+s.Backend == c.at {
					return true
				}
			}
			return false
		})
	}
}

// TestTurnsComeHomeThroughAnyNode: six conversations enter by random nodes, half of them with nothing but their prompts to
// be known by.
func TestTurnsComeHomeThroughAnyNode(t *testing.T) {
	t.Parallel()
	var specs []spec
	for range 3 {
		f := fake(t, enginetest.Options{Slots: 2, PromptCache: 8, PrefillTPS: 20_000, DecodeTPS: 1000})
		specs = append(specs, spec{models: model("m", 2, f.URL()), change: patient})
	}
	fl := newFleet(t, nil, specs...)
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []*talk
	for i := range 6 {
		all = append(all, newTalk(t, fmt.Sprint("talk", i), i%2 == 0, 1500+100*i))
	}
	turns, stayed, warm := 0, 0, 0
	for turn := range 8 {
		for _, c := range all {
			moved, share := c.turn(&fl.peers[rnd.IntN(3)].node)
			c.known(fl.peers...)
			if turn == 0 {
				continue
			}
			turns++
			if !moved {
				stayed++
			}
			if share >= 0.8 {
				warm++
			}
		}
	}
	t.Logf("%d turns: %d came home, %d found at least 80 %% of their context", turns, stayed, warm)
	if stayed < turns*99/100 || warm < turns*95/100 {
		t.Errorf("of %d turns %d came home and %d were warm", turns, stayed, warm)
	}
}

// TestConversationWhoseHomeDiesMovesOnce and then stays where it has gone.
func TestConversationWhoseHomeDiesMovesOnce(t *testing.T) {
	t.Parallel()
	onEngines(t, enginetest.Options{Slots: 2, PrefillTPS: 20_000, DecodeTPS: 1000}, func(t *testing.T, serve func() string) {
		specs := []spec{{change: patient}}
		for range 3 {
			specs = append(specs, spec{models: model("m", 2, serve()), change: patient})
		}
		fl := newFleet(t, nil, specs...)
		entry := fl.peers[0]
		c := newTalk(t, "talk", true, 1500)
		for range 2 {
			c.turn(&entry.node)
			c.known(entry)
		}
		for _, p := range fl.peers[1:] {
			if strings.HasPrefix(c.at, p.Name+" ") {
				p.host.die()
			}
		}
		moves := 0
		for turn := range 5 {
			moved, share := c.turn(&entry.node)
			if moved {
				moves++
			}
			if turn > 0 && share < 0.8 {
				t.Errorf("turn %d after the move found %.0f %% of its context", turn, share*100)
			}
			c.known(entry)
		}
		if moves != 1 {
			t.Errorf("it moved %d times", moves)
		}
	})
}

// TestOwnerThatHasForgottenIsFoundByItsEntries: it lost its table with a restart, its engine still has the slots.
func TestOwnerThatHasForgottenIsFoundByItsEntries(t *testing.T) {
	t.Parallel()
	specs := []spec{{change: patient}}
	for range 2 {
		f := fake(t, enginetest.Options{Slots: 2, PrefillTPS: 20_000, DecodeTPS: 1000})
		specs = append(specs, spec{models: model("m", 2, f.URL()), change: patient})
	}
	fl := newFleet(t, nil, specs...)
	c := newTalk(t, "talk", true, 1500)
	c.turn(&fl.peers[0].node)
	c.known(fl.peers...)
	for _, p := range fl.peers[1:] {
		p.known.Forget("m#0")
	}
	if moved, share := c.turn(&fl.peers[0].node); moved || share < 0.8 {
		t.Errorf("moved: %v; %.0f %% cached", moved, share*100)
	}
}

// TestNothingIsExpectedOfAnEngineThatBeganAnew: not even by a request that comes before the next report is written.
func TestNothingIsExpectedOfAnEngineThatBeganAnew(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, PrefillTPS: 20_000, DecodeTPS: 1000})
	n := startWatched(t, engine.HealthConfig{Interval: 20 * time.Millisecond}, model("m", 2, f.URL())).ready()
	c := newTalk(t, "talk", true, 3000)
	held := func() int {
		c.turn(n)
		p := n.plan(n.g.Requests(1)[0].ID).Plan
		if p == nil || len(p.Candidates) != 1 {
			t.Fatalf("%+v", p)
		}
		return p.Candidates[0].Held
	}
	held() // the first turn puts it there
	if h := held(); h < 500 {
		t.Errorf("the second turn finds %d tokens", h)
	}
	f.SetFaults(enginetest.Faults{Down: true})
	f.Crash()
	n.until("it has gone", func() bool {
		s := n.e.Snapshot()[0].Backends[0].State
		return s != engine.StateReady && s != engine.StateBusy
	})
	f.SetFaults(enginetest.Faults{})
	n.ready()
	if h := held(); h != 0 {
		t.Errorf("%d tokens are expected of an engine that has just begun", h)
	}
}

// TestSmallRequestDoesNotEvictItsConversation: opencode asks for a title with the conversation's own key, beside its turn;
// Qwen Code asks in the background without any.
func TestSmallRequestDoesNotEvictItsConversation(t *testing.T) {
	t.Parallel()
	onEngines(t, enginetest.Options{Slots: 2, DecodeTPS: 200}, func(t *testing.T, serve func() string) {
		for name, head := range map[string][]string{"the same key": {"X-Session-Id", "talk"}, "no key": nil} {
			n := start(t, model("m", 2, serve())).ready()
			c := newTalk(t, "talk", true, 3000)
			c.turn(n)
			title := `{"model":"m","messages":[{"role":"system","content":"You write titles."},{"role":"user","content":"talk talk talk"}],"max_tokens":8}`
			// The turn is left only once the title is there: an engine may take any slot that is idle for it.
			running, leave := n.open("/v1/chat/completions", c.asks(map[string]any{"max_tokens": 4000, "ignore_eos": true, "stream": true}), c.head()...)
			readUntil(t, running.Body, "content")
			if r := n.post("/v1/chat/completions", title, head...); r.status != 200 {
				t.Errorf("%s: %d %.200s", name, r.status, r.body)
			}
			leave()
			freed(n)
			if _, share := c.turn(n); share < 0.8 {
				t.Errorf("%s: %.0f %% of the conversation is left", name, share*100)
			}
		}
	})
}

// TestMemberThatLiesAboutSessionsLosesThem: it says that everybody is at home there, and has nothing cached.
func TestMemberThatLiesAboutSessionsLosesThem(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 8, PrefillTPS: 20_000, DecodeTPS: 1000})
	liar := newRogue(t, 8, "m", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3000,"completion_tokens":2},"timings":{"cache_n":0,"prompt_n":3000,"prompt_per_second":1000,"predicted_n":2,"predicted_per_second":10}}`))
	})
	fl := newFleet(t, []mesh.Member{liar.Member}, spec{change: patient}, spec{models: model("m", 8, f.URL()), change: patient})
	a, home := fl.peers[0], 0
	for i := range 8 {
		c := newTalk(t, fmt.Sprint("talk", i), true, 3000)
		digest := gateway.SessionDigest(a.g, c.name)
		liar.known.Settle(mesh.Resident{Model: "m", Backend: "r#0", Session: digest, Tokens: 90_000}, -1)
		liar.news()
		a.until("the lie is heard", func() bool {
			return i >= 3 || slices.ContainsFunc(a.g.Sessions(1000), func(s status.Session) bool { return s.Session == digest && s.Node == liar.Name })
		})
		c.turn(&a.node)
		if row := a.g.Requests(1)[0]; row.Node == liar.Name && row.Reason == "home" {
			home++
		}
	}
	if home != 3 {
		t.Errorf("%d conversations were sent home to the liar, want 3", home)
	}
}

func TestSessionsAreListed(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2})
	n := start(t, model("m", 2, f.URL())).ready()
	for i := range 3 {
		newTalk(t, fmt.Sprint("talk", i), true, 600).turn(n)
	}
	var list []status.Session
	n.do("GET", "/api/sessions?n=2", "").into(&list)
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	s := list[0]
	if s.Session == "" || strings.Contains(s.Session, "talk") || s.Model != "m" || s.Node != "one" || s.Backend != "m#0" || s.Tokens == nil || *s.Tokens < 600 ||
		s.IdleMS < 0 || s.KeySource != "X-Session-Id" || s.Replicas == nil {
		t.Errorf("%+v", s)
	}
	if r := n.do("GET", "/api/sessions?n=-1", ""); r.status != 400 {
		t.Errorf("%d", r.status)
	}
}

// TestSessionsTellWhereTheirReplicasLie, at every node.
func TestSessionsTellWhereTheirReplicasLie(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, PrefillTPS: 20_000, DecodeTPS: 1000})
	fl := newFleet(t, nil, spec{models: model("m", 2, f.URL())}, spec{})
	c := newTalk(t, "talk", true, 600)
	c.turn(&fl.peers[0].node)
	c.known(fl.peers...)
	for _, p := range fl.peers {
		p.known.Store(mesh.Resident{Model: "m", Session: p.g.Sessions(1)[0].Session, Replica: strings.Repeat("5e", 16), Tokens: 600})
	}
	for _, p := range fl.peers {
		p.until(p.Name+" tells of two replicas", func() bool { return slices.Equal(p.g.Sessions(1)[0].Replicas, []string{"a", "b"}) })
	}
}

// TestCapacityTellsHowBusyAndHowFast a backend is.
func TestCapacityTellsHowBusyAndHowFast(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1, PrefillTPS: 2000, DecodeTPS: 20, Batch: 256}) // so slow that a busy machine adds little
	n := start(t, model("m", 1, f.URL())).ready()
	told := func() mesh.Backend { return n.g.Report().Models[0].Backends[0] }
	if b := told(); b.PrefillTPS != nil || b.Decoding+b.Outstanding+b.Residents != 0 || b.FreeInMS != 0 {
		t.Errorf("before any request: %+v", b)
	}
	leave := n.leaving("/v1/chat/completions", strings.Replace(chat("m", strings.Repeat("long ", 1200), `,"stream":true`), `"max_tokens":8`, `"max_tokens":2000,"ignore_eos":true`, 1), "long")
	n.until("it computes", func() bool { b := told(); return b.Outstanding > 0 && b.Decoding == 0 && b.FreeInMS > 0 })
	n.until("it generates", func() bool {
		b := told()
		return b.Outstanding == 0 && b.Decoding == 1 && b.Residents == 1 && b.Idle == 0
	})
	leave()
	c := newTalk(t, "talk", true, 3000)
	c.turn(n)
	m := n.g.Report().Models[0]
	b := m.Backends[0]
	if b.PrefillTPS == nil || *b.PrefillTPS < 500 || *b.PrefillTPS > 4000 || b.DecodeTPS == nil || *b.DecodeTPS < 4 || *b.DecodeTPS > 80 || m.Score <= 0 || m.Output != 16 {
		t.Errorf("%+v of %+v", b, m)
	}
	n.until("it is idle", func() bool { b := told(); return b.Decoding+b.Outstanding == 0 && b.FreeInMS == 0 && b.Idle >= 1 })
}

// TestCapacityTellsWhoWaitsForOneBackendAlone: others need not count those as before them.
func TestCapacityTellsWhoWaitsForOneBackendAlone(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	models := model("m", 1, f.URL())
	models[0].Backends = append(models[0].Backends, models[0].Backends[0])
	n := start(t, models).ready()
	n.until("both have a free slot", func() bool { // each may have found the other one trying the server
		m := n.g.Report().Models[0]
		return m.Backends[0].Free == 1 && m.Backends[1].Free == 1
	})
	queue := func(backends ...string) {
		ticket, err := n.e.Queue(engine.Request{Model: "m", Backends: backends})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ticket.Leave)
	}
	queue("m#0")
	queue("m#1")
	queue("m#1")
	queue()
	m := n.g.Report().Models[0]
	if m.Waiting != 2 || m.Backends[0].Waiting != 0 || m.Backends[1].Waiting != 1 {
		t.Errorf("%+v", m)
	}
}
