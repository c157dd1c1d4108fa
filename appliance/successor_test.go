package appliance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"viiwork/appliance"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/enginetest"
)

// replacing is a node with one engine, and what its model's program is before and after.
type replacing struct {
	*fellow
	node     *appliance.Appliance
	leave    func() error
	gguf     string
	args     string
	old, new string // llamacpp blocks
}

// place gives nodes that run at one time addresses of their own.
var place atomic.Uint32

// successions are the ways to have two programs for one model.
var successions = map[string]func(t *testing.T, r *replacing){
	"fake": func(t *testing.T, r *replacing) {
		r.args = `--fake-load-for, "2s", --fake-decode-tps, "50"`
		r.old, r.new = nativeBlock(enginetest.Program(t)), nativeBlock(enginetest.Program(t))
	},
	"native": func(t *testing.T, r *replacing) {
		r.args = `-t, "1"`
		r.old, r.new = nativeBlock(enginetest.Real(t)), nativeBlock(wrapped(t, enginetest.Real(t), ""))
	},
	"docker": func(t *testing.T, r *replacing) {
		needEngineImage(t)
		other := fmt.Sprintf("viiwork-test/cpu-engine:%d", os.Getpid())
		build := exec.Command("docker", "build", "--quiet", "-t", other, "-")
		build.Stdin = strings.NewReader("FROM " + engineImage + "\nLABEL viiwork.test=1\n")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "-f", other).Run() })
		r.args = `-t, "1"`
		block := "{runner: docker, image: %q, prompt_cache: 64MiB}"
		r.old, r.new = fmt.Sprintf(block, engineImage), fmt.Sprintf(block, other)
	},
}

func nativeBlock(program string) string {
	return fmt.Sprintf("{runner: native, binary: %q, prompt_cache: 64MiB}", program)
}

// wrapped is another program that does the same, and before a start what is said.
func wrapped(t *testing.T, program, first string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "llama-server")
	text := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in --version|--help) ;; *) %s ;; esac\nexec '%s' \"$@\"\n", first, program)
	if first == "" {
		text = fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", program)
	}
	if err := enginetest.WriteProgram(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return path
}

// gate holds engines up before they load, until it is opened.
type gate struct{ path string }

func newGate(t *testing.T) gate {
	t.Helper()
	g := gate{filepath.Join(t.TempDir(), "gate")}
	if err := syscall.Mkfifo(g.path, 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// before is the program behind the gate.
func (g gate) before(t *testing.T, program string) string {
	t.Helper()
	return wrapped(t, program, fmt.Sprintf("read -r _ <'%s'", g.path)) // in the shell itself, which keeps its process id
}

// open lets those through that wait, and all that come.
func (g gate) open(t *testing.T) {
	t.Helper()
	pipe, err := os.OpenFile(g.path, os.O_RDWR, 0) // who waits for a writer goes on
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	passed := g.path + ".open"
	if err := errors.Join(os.WriteFile(passed, nil, 0o600), os.Rename(passed, g.path)); err != nil {
		t.Fatal(err)
	}
}

// startReplacing starts the node; ends says whether its engines end with it.
func startReplacing(t *testing.T, kind string, ends bool) *replacing {
	t.Helper()
	r := newReplacing(t, kind)
	r.ends = ends
	r.begin(t)
	return r
}

// newReplacing is the node before its start.
func newReplacing(t *testing.T, kind string) *replacing {
	t.Helper()
	r := &replacing{fellow: lanFellow(t, int(place.Add(1))), gguf: filepath.Join(t.TempDir(), "tiny.gguf")}
	if err := enginetest.WriteGGUF(r.gguf, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	successions[kind](t, r)
	t.Cleanup(func() { // after the node's end
		if left := r.engines(); left != "" {
			t.Errorf("left behind: %s", left)
		}
		for line := range strings.Lines(r.engines()) {
			if pid, err := strconv.Atoi(strings.Fields(line)[0]); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	r.more = "kv_share: {mode: pull}\n"
	return r
}

// begin starts the node, or starts it again.
func (r *replacing) begin(t *testing.T) {
	t.Helper()
	if r.models == nil {
		r.models = []string{r.with(r.old)}
	}
	r.node, r.leave = r.fellow.begin(t)
	waitReady(t, r.url())
}

func (r *replacing) with(block string) string {
	return fmt.Sprintf("  - {name: m, path: %q, context: 8192, parallel: 4, args: [%s], llamacpp: %s}\n", r.gguf, r.args, block)
}

func (r *replacing) backend() status.Backend { return r.node.Status().Models[0].Backends[0] }

// changed waits until another process than before serves alone, and fails when at a moment nobody does.
func (r *replacing) changed(t *testing.T, before string) {
	t.Helper()
	seen := map[string]bool{}
	holds(t, "another engine serves alone", func() bool {
		b := r.backend()
		if b.State != string(engine.StateReady) && b.State != string(engine.StateBusy) {
			t.Fatalf("in the middle the backend is %s: %s", b.State, b.Error)
		}
		if b.Change != nil {
			seen[b.Change.State] = true
		}
		return b.Process != before && b.Change == nil
	})
	if !seen["loading"] && !seen["starting"] {
		t.Errorf("nothing was told of it: %v", seen)
	}
}

// load asks without end, short questions and streams, until stop, which tells how many were asked and what went wrong.
func (r *replacing) load() (stop func() (asked int64, failed []string)) {
	var (
		wg    sync.WaitGroup
		asked atomic.Int64
		over  atomic.Bool
		mu    sync.Mutex
		wrong []string
	)
	for i, tokens := range []int{2, 2, 100} {
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				stream := tokens > 2
				got := r.chat("", question("m", fmt.Sprintf("question %d of %d", n, i), tokens, stream))
				asked.Add(1)
				if !got.complete(stream) {
					mu.Lock()
					wrong = append(wrong, fmt.Sprintf("%d %v %.300s", got.status, got.err, got.body))
					mu.Unlock()
				}
			}
		})
	}
	return func() (int64, []string) {
		over.Store(true)
		wg.Wait()
		return asked.Load(), wrong
	}
}

// engines are the processes that have the model's file, whatever they are.
func (r *replacing) engines() string { return enginesOf(filepath.Dir(r.gguf)) }

// TestEngineIsReplacedWithoutAFailedRequest: at each moment one that is ready serves, and streams that run on the old one are
// finished by it.
func TestEngineIsReplacedWithoutAFailedRequest(t *testing.T) {
	for kind := range successions {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := startReplacing(t, kind, true)
			stop := r.load()
			before := r.backend().Process
			r.reload(t, r.node, r.with(r.new))
			r.changed(t, before)
			second := r.backend().Process
			r.reload(t, r.node, r.with(r.old))
			r.changed(t, second)
			asked, failed := stop()
			t.Logf("%d requests over two changes", asked)
			if len(failed) > 0 || asked < 6 {
				t.Errorf("%d of %d failed: %v", len(failed), asked, failed)
			}
			if left := r.engines(); left == "" || strings.Contains(left, "\n") {
				t.Errorf("engines left: %s", left)
			}
		})
	}
}

// TestEngineThatDoesNotComeUpCostsNothing: it is told, the old one serves on, and the next reload tries again.
func TestEngineThatDoesNotComeUpCostsNothing(t *testing.T) {
	t.Parallel()
	r := startReplacing(t, "fake", true)
	before := r.backend().Process
	stop := r.load()
	broken := wrapped(t, enginetest.Program(t), "echo no such card >&2; exit 3")
	r.reload(t, r.node, r.with(nativeBlock(broken)))
	holds(t, "it is told", func() bool {
		w := r.warning("engine_change")
		return w != nil && strings.Contains(w.Text, "no such card") && strings.Contains(w.Fix, "reload")
	})
	// One that is killed while it loads does no harm either.
	way := newGate(t)
	r.new = nativeBlock(way.before(t, enginetest.Program(t)))
	r.reload(t, r.node, r.with(r.new))
	var record struct{ PID int }
	path := filepath.Join(r.dir, "state", "engines", engine.SafeName("m#0b")+".json")
	holds(t, "the new one loads", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && json.Unmarshal(text, &record) == nil && record.PID > 1
	})
	_ = syscall.Kill(record.PID, syscall.SIGKILL)
	holds(t, "it is told, too", func() bool {
		w := r.warning("engine_change")
		return w != nil && strings.Contains(w.Text, "SIGKILL")
	})
	if b := r.backend(); b.Process != before || b.State != "ready" && b.State != "busy" || b.Restarts != 0 {
		t.Errorf("the old one: %+v", b)
	}
	way.open(t)
	r.reload(t, r.node, r.with(r.new)) // nothing has changed but the owner's patience
	r.changed(t, before)
	if asked, failed := stop(); len(failed) > 0 || asked < 6 {
		t.Errorf("%d of %d failed: %v", len(failed), asked, failed)
	}
	if w := r.warning("engine_change"); w != nil {
		t.Errorf("it is still told: %+v", w)
	}
}

// TestNodeThatEndsInTheMiddleKeepsOneEngine: the one that the configuration wants.
func TestNodeThatEndsInTheMiddleKeepsOneEngine(t *testing.T) {
	t.Parallel()
	r := startReplacing(t, "fake", false)
	old, way := r.backend().Process, newGate(t)
	r.new = nativeBlock(way.before(t, enginetest.Program(t)))
	r.reload(t, r.node, r.with(r.new))
	holds(t, "both are there", func() bool { return strings.Count(r.engines(), "\n") == 1 })
	if err := r.leave(); err != nil {
		t.Fatal(err)
	}
	if strings.Count(r.engines(), "\n") != 1 {
		t.Fatalf("the node's end took engines along: %s", r.engines())
	}
	way.open(t)
	r.ends = true
	r.begin(t)
	holds(t, "one is left", func() bool { return r.engines() != "" && !strings.Contains(r.engines(), "\n") })
	if b := r.backend(); b.Process == old || b.Restarts != 0 || !strings.HasPrefix(b.Process, "pid ") || !strings.HasPrefix(r.engines(), strings.TrimPrefix(b.Process, "pid ")+" ") {
		t.Errorf("%+v serves; there is %s", b, r.engines())
	}
	if got := r.chat("", question("m", "hello", 4, false)); !got.complete(false) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestConversationsGoOnWarmInTheNewEngine where it can read what the old one has saved.
func TestConversationsGoOnWarmInTheNewEngine(t *testing.T) {
	t.Parallel()
	r := newReplacing(t, "fake")
	r.ends, r.args = true, `--fake-load-for, "2s", --fake-prefill-tps, "800"` // a first engine that is any faster would say that nothing is saved by moving its caches
	r.begin(t)
	m := newMover("settler", 3000)
	m.turn(t, r.fellow)
	before, held := r.backend().Process, m.held
	r.reload(t, r.node, r.with(r.new))
	r.changed(t, before)
	if n := r.kv(t).Store.Replicas; n != 1 {
		t.Fatalf("%d conversations are stored", n)
	}
	m.turn(t, r.fellow)
	if !slices.Equal(m.routes, []string{"pinned", "import"}) || m.held <= held {
		t.Errorf("routes %v", m.routes)
	}
}

// TestNextImageWaitsForTheLastChange: the next model's turn comes when nothing is left of the last one's old engine, and
// not at all when its new one has failed.
func TestNextImageWaitsForTheLastChange(t *testing.T) {
	var turns appliance.Turns
	told := turns.Want(fleetOf("old", "old"), nil)
	told = turns.Want(fleetOf("new", "new"), states(told))
	now := states(told)
	for _, s := range []engine.State{engine.StateStarting, engine.StateLoading, engine.StateDraining} {
		now[0].Backends[0].Change = &engine.Change{State: s}
		if turns.Due(now) {
			t.Errorf("the next one has its turn while the other engine of the last one is %s", s)
		}
		// A reload meanwhile gives nobody else a turn.
		if got := imagesIn(turns.Want(fleetOf("new", "new"), now)); !slices.Equal(got, []string{"new", "old"}) {
			t.Errorf("after a reload %v", got)
		}
	}
	now[0].Backends[0].Change = &engine.Change{State: engine.StateFailed, Err: "no such card"}
	if turns.Due(now) || len(turns.Warning()) != 1 {
		t.Errorf("after a failure %v", turns.Warning())
	}
	now[0].Backends[0].Change = nil
	if !turns.Due(now) {
		t.Error("the next one's turn does not come")
	}
	if got := imagesIn(turns.Next(now)); !slices.Equal(got, []string{"new", "new"}) {
		t.Errorf("then %v", got)
	}
}
