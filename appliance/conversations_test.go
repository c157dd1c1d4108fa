package appliance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// agent is a conversation that enters by any node of a mesh.
type agent struct {
	name     string
	keyed    bool
	messages []map[string]string
	rnd      *rand.Rand

	turns, warm, home int // after the first
}

func newAgent(i int, keyed bool) *agent {
	name := fmt.Sprintf("agent-%d-%v", i, keyed)
	return &agent{name: name, keyed: keyed, rnd: rand.New(rand.NewPCG(uint64(i), 1)), messages: []map[string]string{
		{"role": "system", "content": strings.Repeat("All agents begin alike. ", 4)},
		{"role": "user", "content": strings.Repeat(name+" works. ", 18+i)},
	}}
}

// turn asks one of the nodes, and waits until all have heard what that left at an engine, as they have while a person
// reads or a tool runs.
func (a *agent) turn(t *testing.T, nodes []*fellow) {
	body, headers := map[string]any{"model": "m", "messages": a.messages, "max_tokens": 12, "temperature": 0}, []string{}
	if a.keyed {
		headers = []string{"X-Session-Id", a.name}
	}
	s := nodes[a.rnd.IntN(len(nodes))].chat("", body, headers...)
	var doc struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Prompt  int `json:"prompt_tokens"`
			Output  int `json:"completion_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(s.body), &doc); err != nil || s.status != 200 || len(doc.Choices) != 1 || doc.Usage.Prompt == 0 {
		t.Errorf("%s: %d %v %.300s", a.name, s.status, s.err, s.body)
		return
	}
	if len(a.messages) > 2 {
		a.turns++
		if 5*doc.Usage.Details.Cached >= 4*doc.Usage.Prompt {
			a.warm++
		}
		if route := s.header.Get("X-Viiwork-Route"); route == "home" || route == "wait" {
			a.home++
		}
		if key, want := s.header.Get("X-Viiwork-Key"), map[bool]string{true: "X-Session-Id", false: "prefix"}[a.keyed]; key != want {
			t.Errorf("%s was known by %s, want %s", a.name, key, want)
		}
	}
	for _, f := range nodes {
		holds(t, f.name+" knows what "+a.name+" has left", func() bool {
			var list []status.Session
			f.read("/api/sessions?n=1000", &list)
			for _, known := range list {
				if known.Tokens != nil && *known.Tokens == doc.Usage.Prompt+doc.Usage.Output && known.Node == s.header.Get("X-Viiwork-Node") {
					return true
				}
			}
			return false
		})
	}
	a.messages = append(a.messages, map[string]string{"role": "assistant", "content": doc.Choices[0].Message.Content},
		map[string]string{"role": "user", "content": fmt.Sprint(a.name, " goes on, ", len(a.messages))})
}

// TestRealEnginesKeepConversations: six at one time, each turn by a random one of three nodes, with and without a session's
// header. What was cached is the engines' own count.
func TestRealEnginesKeepConversations(t *testing.T) {
	path := tinyModel(t)
	for name, keyed := range map[string]bool{"session header": true, "prompt only": false} {
		t.Run(name, func(t *testing.T) {
			nodes := lanFellows(t, 3, func(int) []string {
				url := enginetest.StartReal(t, path, "-a", "m", "-np", "6", "-c", "16384", "-t", "1", "--cache-ram", "64")
				return []string{served("m", url, 6)}
			})
			for _, f := range nodes {
				f.here(t)
			}
			for _, f := range nodes {
				holds(t, f.name+" sees all", func() bool { return f.sees("m") == len(nodes) })
			}
			var agents []*agent
			var wg sync.WaitGroup
			for i := range 6 {
				a := newAgent(i, keyed)
				agents = append(agents, a)
				wg.Go(func() {
					for range 8 {
						a.turn(t, nodes)
					}
				})
			}
			wg.Wait()
			turns, warm, home := 0, 0, 0
			for _, a := range agents {
				turns, warm, home = turns+a.turns, warm+a.warm, home+a.home
			}
			t.Logf("%d of %d turns found 80 %% of their prompt cached, %d came home", warm, turns, home)
			if turns != 42 || warm*100 < turns*95 {
				t.Errorf("%d of %d turns found 80 %% of their prompt cached", warm, turns)
			}
		})
	}
}

// TestRestartedEntryKnowsTheConversations, by what the others tell it.
func TestRestartedEntryKnowsTheConversations(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		restartEntry(t, func() string {
			return fakeEngine(t, enginetest.Options{Slots: 4, PromptCache: 8, PrefillTPS: 20_000, DecodeTPS: 1000}).URL()
		})
	})
	t.Run("real", func(t *testing.T) {
		path := tinyModel(t)
		restartEntry(t, func() string {
			return enginetest.StartReal(t, path, "-a", "m", "-np", "4", "-c", "16384", "-t", "1", "--cache-ram", "64")
		})
	})
}

// tinyModel is a model for real engines; where there are none the test is skipped.
func tinyModel(t *testing.T) string {
	enginetest.Real(t)
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

func restartEntry(t *testing.T, engine func() string) {
	nodes := lanFellows(t, 3, func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{served("m", engine(), 4)}
	})
	entry := nodes[0]
	leave := entry.here(t)
	for _, f := range nodes[1:] {
		f.here(t)
	}
	serves := func() {
		t.Helper()
		holds(t, "the entry sees all", func() bool { return entry.sees("m") == 2 })
	}
	serves()
	agents := []*agent{newAgent(0, true), newAgent(1, false)}
	for _, a := range agents {
		a.turn(t, nodes[:1])
		a.turn(t, nodes[:1])
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	entry.here(t)
	serves()
	holds(t, "the entry is told of both", func() bool {
		var list []status.Session
		return entry.read("/api/sessions", &list) && len(list) == len(agents)
	})
	for _, a := range agents {
		a.turn(t, nodes[:1])
		if a.turns != 2 || a.home != 2 || a.warm != 2 {
			t.Errorf("%s: of %d turns %d came home and %d were warm", a.name, a.turns, a.home, a.warm)
		}
	}
}
