package appliance_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// mover is a conversation that is sent from node to node.
type mover struct {
	name     string
	messages []map[string]string
	held     int      // tokens of its last turn
	texts    []string // its answers
	at       string   // node of its last turn

	moves, warm int
	routes      []string
}

func newMover(name string, bytes int) *mover {
	text := strings.Repeat(name+" works on it. ", bytes)[:bytes]
	return &mover{name: name, messages: []map[string]string{
		{"role": "system", "content": "All begin alike."}, {"role": "user", "content": text},
	}}
}

// turn goes to a node, which runs it itself.
func (m *mover) turn(t *testing.T, f *fellow) {
	t.Helper()
	s := f.chat("?host="+f.name, map[string]any{"model": "m", "messages": m.messages, "max_tokens": 16, "temperature": 0}, "X-Session-Id", m.name)
	var doc struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Total   int `json:"total_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(s.body), &doc); err != nil || s.status != 200 || len(doc.Choices) != 1 {
		t.Fatalf("%s at %s: %d %v %.300s", m.name, f.name, s.status, s.err, s.body)
	}
	if m.at != "" && m.at != f.name {
		m.moves++
		if doc.Usage.Details.Cached >= m.held*95/100 {
			m.warm++
		}
	}
	m.routes = append(m.routes, s.header.Get("X-Viiwork-Route"))
	m.at, m.held = f.name, doc.Usage.Total
	m.texts = append(m.texts, doc.Choices[0].Message.Content)
	m.messages = append(m.messages, map[string]string{"role": "assistant", "content": m.texts[len(m.texts)-1]},
		map[string]string{"role": "user", "content": fmt.Sprintf("turn %d: %s", len(m.texts), strings.Repeat("go on with it. ", 50))})
}

// known waits until all nodes know where the conversation was last.
func (m *mover) known(t *testing.T, nodes []*fellow) {
	t.Helper()
	for _, f := range nodes {
		holds(t, f.name+" knows where "+m.name+" is", func() bool {
			var list []status.Session
			f.read("/api/sessions?n=1000", &list)
			return slices.ContainsFunc(list, func(s status.Session) bool { return s.Tokens != nil && *s.Tokens == m.held && s.Node == m.at })
		})
	}
}

// kvMesh is what nodes with engines of their own are made of.
type kvMesh struct {
	nodes   int
	mode    string
	names   []string // nil = those of all tests
	program string   // "" = the real one
	model   enginetest.GGUFOptions
	args    string // of the engine, as YAML items
	cache   string // "" = 64MiB
}

// start makes nodes that end with their engines.
func (k kvMesh) start(t *testing.T) (nodes []*fellow, leave []func() error) {
	t.Helper()
	if k.program == "" {
		k.program, k.args = enginetest.Real(t), `-t, "1"`
	}
	dir := t.TempDir()
	if err := enginetest.WriteGGUF(filepath.Join(dir, "tiny.gguf"), k.model); err != nil {
		t.Fatal(err)
	}
	nodes = lanFellows(t, k.nodes, func(int) []string {
		return []string{fmt.Sprintf("  - {name: m, path: %q, context: 16384, parallel: 2, args: [%s], llamacpp: {runner: native, binary: %q, prompt_cache: %s}}\n",
			filepath.Join(dir, "tiny.gguf"), k.args, k.program, cmp.Or(k.cache, "64MiB"))}
	})
	for i, f := range nodes {
		if k.names != nil {
			f.name = k.names[i]
		}
		f.ends, f.more = true, fmt.Sprintf("kv_share: {mode: %q}\n", k.mode)
		leave = append(leave, f.here(t))
	}
	for _, f := range nodes {
		holds(t, f.name+" sees all", func() bool { return f.sees("m") == k.nodes })
		holds(t, f.name+" has its engine", func() bool { return f.hasSlots(2 * k.nodes) })
	}
	return nodes, leave
}

// hasSlots tells whether the node sees so many free slots.
func (f *fellow) hasSlots(n int) bool {
	var doc struct {
		Models []struct{ Free int }
	}
	return f.read("/v1/fleet/capacity", &doc) && len(doc.Models) == 1 && doc.Models[0].Free == n
}

// TestRealConversationMovesWithItsCache: sent to the other node at each turn, the engine finds what the turn before left there,
// and answers as if it had never moved.
func TestRealConversationMovesWithItsCache(t *testing.T) {
	for name, o := range map[string]enginetest.GGUFOptions{"dense": {}, "sliding window": {SlidingWindow: true}} {
		t.Run(name, func(t *testing.T) {
			nodes, _ := kvMesh{nodes: 2, mode: "pull", model: o}.start(t)
			moves, stays := newMover("rover", 6500), newMover("rover", 6500)
			for i := range 8 {
				moves.turn(t, nodes[i%2])
				moves.known(t, nodes)
			}
			stays.name = "settler"
			alone, _ := kvMesh{nodes: 1, mode: "off", model: o}.start(t)
			for range 8 {
				stays.turn(t, alone[0])
			}
			t.Logf("%d of %d moves warm, %v", moves.warm, moves.moves, moves.routes)
			if moves.moves != 7 || moves.warm < 7 {
				t.Errorf("%d of %d moves found what the turn before had left", moves.warm, moves.moves)
			}
			if !slices.Equal(moves.texts, stays.texts) {
				t.Errorf("it answers otherwise than one that stays:\n%q\n%q", moves.texts, stays.texts)
			}
			counted := 0
			for _, f := range nodes {
				holds(t, "all slots of "+f.name+" are free", func() bool { return f.hasSlots(4) })
				kv := f.kv(t)
				if len(kv.Pairs) == 0 || kv.Pairs[0].Proved == 0 || kv.Store.Bytes == 0 {
					t.Errorf("%s tells %+v", f.name, kv)
				}
				for _, m := range kv.Models {
					counted += m.Warm + m.Partly + m.Cold
				}
			}
			if counted != moves.moves {
				t.Errorf("%d of %d moves are counted", counted, moves.moves)
			}
		})
	}
}

// TestRealConversationsMoveFromFullHomes: six on two nodes with two slots each, so that most of them lie in no slot when they
// are sent away.
func TestRealConversationsMoveFromFullHomes(t *testing.T) {
	nodes, _ := kvMesh{nodes: 2, mode: "pull"}.start(t)
	var all []*mover
	for i := range 6 {
		all = append(all, newMover(fmt.Sprint("rover ", i), 2500+200*i))
	}
	for i := range 5 {
		for j, m := range all {
			m.turn(t, nodes[(i/2+j)%2]) // two turns here, two there
			m.known(t, nodes)
		}
	}
	moves, warm := 0, 0
	for _, m := range all {
		moves, warm = moves+m.moves, warm+m.warm
		t.Log(m.name, m.warm, "of", m.moves, m.routes)
	}
	if moves != 12 || warm*100 < moves*90 {
		t.Errorf("%d of %d moves warm", warm, moves)
	}
}

// kv is what the node tells of moved caches.
func (f *fellow) kv(t *testing.T) (doc status.KV) {
	t.Helper()
	holds(t, f.name+" tells of moved caches", func() bool { doc = status.KV{}; return f.read("/api/kv", &doc) })
	return doc
}

// TestARestoredCacheIsTrustedOnlyAfterEvidence: an engine that restores to no use is found out by its own count of cached
// tokens, and left alone.
func TestARestoredCacheIsTrustedOnlyAfterEvidence(t *testing.T) {
	t.Parallel()
	nodes, _ := kvMesh{nodes: 2, mode: "pull", program: enginetest.Program(t), args: `--fake-cold-restore, --fake-prefill-tps, "800"`}.start(t)
	m := newMover("rover", 1500) // each turn adds a second's work to what the node has of it, so that a cache is worth its way on a busy machine, too
	for i := range 10 {
		m.turn(t, nodes[i%2])
		m.known(t, nodes)
	}
	off := 0
	for _, f := range nodes {
		kv, useless := f.kv(t), 0
		f.toldPhases(t, kv)
		for _, p := range kv.Pairs {
			if p.Imports > 0 {
				useless += p.Failed
			}
			if p.Proved > 0 || p.Imports > 3 {
				t.Errorf("%s has tried otherwise than three times: %+v", f.name, p)
			}
		}
		if len(kv.Models) == 1 && !kv.Models[0].Enabled && kv.Models[0].Why != "" && useless == 3 {
			off++ // and from then on there is nobody for the other one to ask
		}
	}
	if off == 0 || slices.Contains(m.routes[7:], "pull") {
		t.Errorf("%d have given up, by %v", off, m.routes)
	}
}

// toldPhases holds the times of imports' parts that Prometheus is told against what people are.
func (f *fellow) toldPhases(t *testing.T, kv status.KV) {
	t.Helper()
	imports := 0
	seconds := map[string]float64{}
	for _, p := range kv.Pairs {
		imports += p.Imports
		seconds["fetch"] += p.FetchSeconds
		seconds["assemble"] += p.AssembleSeconds
		seconds["restore"] += p.RestoreSeconds
	}
	told := scrape(t, f.url())
	for phase, want := range seconds {
		n, sum := told[fmt.Sprintf("viiwork_kv_import_phase_seconds_count{phase=%q}", phase)], told[fmt.Sprintf("viiwork_kv_import_phase_seconds_sum{phase=%q}", phase)]
		if n != float64(imports) || math.Abs(sum-want) > 0.001*float64(1+imports) {
			t.Errorf("%s of %d imports, in %v s: %v imports in %v s are told", phase, imports, want, n, sum)
		}
	}
}

// TestCacheThatIsLostIsImportedAgain, and not taken for there because it once was.
func TestCacheThatIsLostIsImportedAgain(t *testing.T) {
	t.Parallel()
	nodes, _ := kvMesh{nodes: 2, mode: "pull", program: enginetest.Program(t), args: `--fake-prefill-tps, "1000"`, cache: "0"}.start(t)
	m := newMover("rover", 3000)
	m.turn(t, nodes[0])
	m.known(t, nodes)
	for round := range 2 {
		m.turn(t, nodes[1])
		m.known(t, nodes)
		holds(t, "its state is stored", func() bool { return nodes[1].kv(t).Store.Replicas > round })
		for i := range 3 { // more than there are slots
			newMover(fmt.Sprint("other ", round, i), 2000).turn(t, nodes[1])
		}
	}
	m.turn(t, nodes[1])
	if want := []string{"pinned", "pull", "import", "import"}; !slices.Equal(m.routes, want) {
		t.Errorf("%v, want %v", m.routes, want)
	}
}

// TestConversationGoesOnWhereItsCopyIs when its home has gone.
func TestConversationGoesOnWhereItsCopyIs(t *testing.T) {
	for name, program := range map[string]func(*testing.T) (string, string){
		"fake": func(t *testing.T) (string, string) { return enginetest.Program(t), `--fake-prefill-tps, "1000"` },
		"real": func(*testing.T) (string, string) { return "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kvMesh{nodes: 2, mode: "replicate"}
			k.program, k.args = program(t)
			nodes, leave := k.start(t)
			m := newMover("rover", 3000)
			m.turn(t, nodes[0])
			m.known(t, nodes)
			holds(t, "the other node has a copy", func() bool { return nodes[1].kv(t).Store.Replicas == 1 })
			if err := leave[0](); err != nil {
				t.Fatal(err)
			}
			m.turn(t, nodes[1])
			if m.warm != 1 || m.routes[1] != "import" {
				t.Errorf("%d warm, by %v", m.warm, m.routes)
			}
			if kv := nodes[1].kv(t); len(kv.Models) != 1 || kv.Models[0].Warm+kv.Models[0].Partly != 1 { // by how much the turn has added
				t.Errorf("it is not counted: %+v", kv.Models)
			}
		})
	}
}
