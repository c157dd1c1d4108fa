package kvshare_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/mesh"
	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
	"viiwork/engine/native"
)

func TestMain(m *testing.M) {
	if enginetest.IsProgram() {
		os.Exit(enginetest.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patience is how long anything may take that is awaited here: much longer than it does.
const patience = 60 * time.Second

// plan is what a host is made of.
type plan struct {
	slots  int // 0 = 2
	args   []string
	mode   kvshare.Mode // "" = pull
	spool  string       // where the engine's files go; "" = beside all else
	budget int64        // of the store; 0 = 1 GiB
	still  bool         // the share does nothing by itself: its Run is not called
	// prefill is how many tokens a second the engine is said to compute; 0 = so few that a short turn is worth its save also
	// where a loaded machine takes long for that.
	prefill float64
}

// host is an engine of this machine, and what moves its caches.
type host struct {
	testing.TB
	*kvshare.Share
	plan   plan
	dir    string
	engine *engine.Engine
	model  engine.Model
	store  *store.Store
	known  *mesh.Register
	log    *lines
	stop   func() // ends the share and its store, but not the engine
}

// lines is what was logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

const (
	backend     = "m#0"
	slowPrefill = 1
)

// newHost has an engine that is ready.
func newHost(t testing.TB, p plan) *host {
	t.Helper()
	h := &host{TB: t, plan: p, dir: t.TempDir(), log: &lines{}}
	logs := slog.New(slog.NewTextHandler(h.log, nil))
	file := filepath.Join(h.dir, "tiny.gguf")
	if err := enginetest.WriteGGUF(file, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	h.model = engine.Model{
		Name: "m", Path: file, Runner: engine.RunnerNative, Binary: enginetest.Program(t), Backends: []engine.BackendSpec{{}},
		Context: 16384, Parallel: cmp.Or(p.slots, 2), Args: p.args,
	}
	var err error
	h.engine, err = engine.New(engine.Config{
		Node: "n", StateDir: h.dir, Spool: p.spool, Dialect: llama.New(nil), Log: logs,
		Runners: map[engine.RunnerKind]engine.Runner{engine.RunnerNative: native.New(native.Config{Node: "n", StateDir: h.dir})},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.engine.StopEngines(true)
	h.engine.Apply([]engine.Model{h.model})
	h.runs(h.engine.Run)
	h.await("the engine is ready", func() bool { return h.state().State == engine.StateReady })
	h.open()
	return h
}

// runs calls a Run until the test ends, or what it gives is called.
func (h *host) runs(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.Error(err)
		}
	})
	h.Cleanup(stop)
	return stop
}

// open begins a new run of the share, with what the one before has kept.
func (h *host) open() {
	h.Helper()
	var err error
	h.store, err = store.Open(store.Config{Dir: filepath.Join(h.dir, "kv"), Budget: cmp.Or(h.plan.budget, 1<<30), KeepFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		h.Fatal(err)
	}
	h.known = mesh.NewRegister(mesh.RegisterConfig{Log: slog.New(slog.NewTextHandler(h.log, nil))})
	h.Share = kvshare.New(kvshare.Config{
		Mode: cmp.Or(h.plan.mode, kvshare.Pull), Engine: h.engine, Known: h.known, Notes: filepath.Join(h.dir, "notes"),
		Digest: func(string) string { return "v1:0123" }, Log: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	if h.Share != nil {
		h.Keep(h.store)
	}
	st, end := h.store, func() {}
	if h.Share != nil && !h.plan.still {
		end = h.runs(h.Run)
	}
	h.stop = sync.OnceFunc(func() { end(); _ = st.Close() })
	h.Cleanup(h.stop)
}

func (h *host) state() engine.BackendState { return h.engine.Snapshot()[0].Backends[0] }

func (h *host) await(what string, it func() bool) {
	h.Helper()
	for end := time.Now().Add(patience); !it(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("never came to hold: %s\n%s", what, h.log)
		}
	}
}

// talk is a conversation: each turn's prompt goes on where the answer before ended. A token is a byte.
type talk struct {
	session string
	text    string
	chain   []mesh.Link
	marks   []int
	held    int // tokens, with the last answer

	cached int // of the last turn
	moved  string
	slot   int
}

// newTalk begins with so many tokens of its own.
func newTalk(session string, tokens int) *talk {
	return &talk{session: session, text: strings.Repeat(session+" ", tokens)[:tokens]}
}

// says adds to the prompt.
func (c *talk) says(text string) {
	c.text += text
	sum := sha256.Sum256([]byte(c.text))
	c.chain = append(slices.Clone(c.chain), mesh.Link(sum[:16]))
	c.marks = append(slices.Clone(c.marks), len(c.text))
}

// fork is another conversation that so far went the same way.
func (c *talk) fork(session string) *talk {
	f := *c
	f.session = session
	return &f
}

// running is a turn that an engine is at work on.
type running struct {
	h     *host
	c     *talk
	start *kvshare.Start
	lease *engine.Lease
	body  *bufio.Scanner
	resp  *http.Response
	asked func() // when the engine is asked for the prompt's tokens; nil = nothing
}

// turn runs the conversation's next one to its end.
func (h *host) turn(c *talk, fetch ...*kvshare.Fetch) {
	h.Helper()
	c.says("> ")
	r, err := h.begin(context.Background(), c, 8, fetch...)
	if err != nil {
		h.Fatalf("%s: %v\n%s", c.session, err, h.log)
	}
	r.end()
}

// own is a fetch from the host's own store, of all that the conversation has before its next prompt.
func (c *talk) own() *kvshare.Fetch {
	return &kvshare.Fetch{Link: len(c.chain) - 1, Tokens: c.held, Within: patience}
}

// begin has the engine take a turn.
func (h *host) begin(ctx context.Context, c *talk, tokens int, fetch ...*kvshare.Fetch) (*running, error) {
	t := kvshare.Turn{Model: "m", Backend: backend, Session: c.session, Prompt: c.chain, Marks: c.marks, Tokens: len(c.text), Prefill: cmp.Or(h.plan.prefill, slowPrefill)}
	if len(fetch) > 0 {
		t.Fetch = fetch[0]
	}
	lease, err := h.engine.Acquire(ctx, engine.Request{Model: "m"})
	if err != nil {
		return nil, err
	}
	r := &running{h: h, c: c, lease: lease, start: h.Begin(ctx, t)}
	c.moved, c.slot = r.start.Moved, r.start.Slot
	ask := map[string]any{"prompt": c.text, "n_predict": tokens, "stream": true, "return_progress": true, "ignore_eos": true}
	if c.slot >= 0 {
		ask["id_slot"] = c.slot
	}
	body, _ := json.Marshal(ask)
	req := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/completion"}, Header: http.Header{"Content-Type": {"application/json"}},
		Body: readCloser{bytes.NewReader(body)}, ContentLength: int64(len(body))}
	if r.resp, err = lease.Do(req.WithContext(ctx)); err != nil {
		r.drop()
		return nil, err
	}
	r.body = bufio.NewScanner(r.resp.Body)
	r.body.Buffer(nil, 1<<20)
	r.body.Scan() // the first event says that it has a slot
	r.start.Taken()
	return r, nil
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// drop ends a turn of which nothing is known.
func (r *running) drop() {
	r.start.End(context.Background(), kvshare.Outcome{Prompt: -1, Cached: -1})
	if r.resp != nil {
		r.resp.Body.Close()
	}
	r.lease.Release()
}

// end reads the answer and takes account of it.
func (r *running) end() {
	r.h.Helper()
	c := r.c
	answer := ""
	var last struct {
		Content   string
		Stop      bool
		Evaluated int `json:"tokens_evaluated"`
		Predicted int `json:"tokens_predicted"`
		Timings   struct {
			Cached int `json:"cache_n"`
		}
	}
	for more := true; more; more = r.body.Scan() {
		data, ok := strings.CutPrefix(r.body.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			r.h.Fatal(err)
		}
		answer += last.Content
	}
	if !last.Stop {
		r.drop()
		r.h.Fatalf("%s: the answer broke off: %v", c.session, r.body.Err())
	}
	prompt := c.text
	c.text, c.held, c.cached = c.text+answer, last.Evaluated+last.Predicted, last.Timings.Cached
	stay := &mesh.Resident{Model: "m", Backend: backend, Session: c.session, Chain: c.chain, Marks: c.marks, Tokens: c.held}
	r.h.known.Settle(*stay, c.cached)
	r.start.End(context.Background(), kvshare.Outcome{
		Stay: stay, Prompt: last.Evaluated, Cached: c.cached,
		Tokens: func(context.Context) ([]int32, error) {
			if r.asked != nil {
				r.asked()
			}
			ids := make([]int32, len(prompt))
			for i := range prompt {
				ids[i] = int32(prompt[i])
			}
			return ids, nil
		},
	})
	r.resp.Body.Close()
	r.lease.Release()
}

// warm tells whether the last turn found nearly all that the one before had left.
func (c *talk) warm(held int) bool { return c.cached >= held*95/100 }

// saved waits until the store has the conversation as it stands, as a member would that asks for it.
func (h *host) saved(c *talk) replica.Manifest {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := h.Manifest(ctx, fmt.Sprintf("%x", c.chain[len(c.chain)-1]))
	if err != nil || s.Manifest.Tokens < c.held-1 {
		h.Fatalf("%s is stored up to %d of %d tokens: %v\n%s", c.session, s.Manifest.Tokens, c.held, err, h.log)
	}
	return s.Manifest
}

// isTidy checks that all slots are free, and that no state is left in the engine's folder.
func (h *host) isTidy() {
	h.Helper()
	h.await("all slots are free", func() bool {
		return !slices.ContainsFunc(h.state().Slots, func(s engine.SlotView) bool { return s.State != "free" })
	})
	dir, ok := h.engine.SlotFolder(backend)
	if !ok {
		h.Fatal("the engine keeps no slot files")
	}
	h.await("the slots' folder is empty", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})
}
