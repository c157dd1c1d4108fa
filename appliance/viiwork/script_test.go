package main_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"viiwork/appliance"
	"viiwork/appliance/mesh"
	viiwork "viiwork/appliance/viiwork"
	"viiwork/engine/enginetest"
	"viiwork/images/imagestest"
)

func TestMain(m *testing.M) {
	if enginetest.IsProgram() {
		os.Exit(enginetest.Main(os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){
		"viiwork": func() {
			stampByFolder()
			stampByTail()
			os.Exit(viiwork.Run(context.Background(), hasty(os.Args[1:]),
				viiwork.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}))
		},
	})
}

// TestCommandLine plays testdata/script: the command line as its users see it. Each script finds a fake engine at
// $ENGINE, a registry with engine:v1 at $REGISTRY, and free ports in $PORT, with two more after it, and $GOSSIP.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	real, ports := realEngine(), newPorts()
	registry := imagestest.New(t)
	registry.Random("engine:v1")
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: os.Getenv("UPDATE_GOLDEN") != "",
		Setup: func(env *testscript.Env) error {
			fake := enginetest.New(enginetest.Options{Slots: 2, Model: "org/m", Context: 8192, DecodeTPS: 100, ReplyTokens: 1 << 20})
			env.Defer(fake.Close)
			work := env.WorkDir
			env.Defer(func() { endEngines(work) })
			env.Defer(func() { endJudges(work) })
			env.Defer(func() { _ = exec.Command("tmux", "-S", filepath.Join(work, "tm"), "kill-server").Run() }) // of a script that failed halfway
			port, err := ports.free()
			if err != nil {
				return err
			}
			gossip, err := ports.free()
			env.Setenv("ENGINE", fake.URL())
			env.Setenv("PORT", strconv.Itoa(port))
			env.Setenv("GOSSIP", strconv.Itoa(gossip))
			env.Setenv("REAL", real)
			env.Setenv("REGISTRY", registry.Host)
			return err
		},
		Condition: func(cond string) (bool, error) {
			if cond == "real" {
				return real != "", nil
			}
			return false, fmt.Errorf("no condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"expand":   expand,
			"ready":    ready,
			"ask":      ask,
			"retry":    retry,
			"stream":   stream,
			"signal":   signalBackground,
			"fakenode": fakeNode,
			"gguf":     writeGGUF,
			"hold":     hold,
			"empty":    empty,
			"engines":  engines,
			"gone":     gone,
			"joincode": joinCode,
			"versions": versions,
		},
	})
}

// realEngine is a real llama-server, "" where there is none.
func realEngine() string {
	if path := os.Getenv("VIIWORK_TEST_ENGINE"); path != "" {
		return path
	}
	path, err := exec.LookPath("llama-server")
	if err != nil {
		return ""
	}
	return path
}

// ports gives each script and each node one of its own: they run side by side, and a port that the kernel picks and gets back
// may be the next one's or an outgoing connection's before a node listens there. So they lie below the range it picks from, and
// none is given twice, unless all are used up: what was given may not be listened at yet.
type ports struct {
	mu   sync.Mutex
	next int
}

// Where the ports lie: above those of engines, below those that the system gives away.
const (
	firstPort = 30000
	lastPort  = 32700
)

// newPorts is the one of this process.
var newPorts = sync.OnceValue(func() *ports { return &ports{next: firstPort + rand.IntN(lastPort-firstPort)} })

// perScript is the ports of a script: a demo takes three.
const perScript = 3

func (p *ports) free() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 1000 {
		first := p.next
		if p.next += perScript; p.next > lastPort {
			p.next = firstPort
		}
		if allFree(first) {
			return first, nil
		}
	}
	return 0, errors.New("no free ports")
}

func allFree(first int) bool {
	for port := first; port < first+perScript; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// exits CODE COMMAND…: runs it and compares its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// expand FILE: puts the script's variables into a file.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// ready PORT: waits until the node there serves all its models.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "a ready node", func() error {
		resp, err := http.Get("http://127.0.0.1:" + args[0] + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s", resp.Status, text)
		}
		return nil
	})
}

// ask PORT MODEL: one question over the API must be answered.
func ask(ts *testscript.TestScript, _ bool, args []string) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":"x"}]}`, args[1])
	resp, err := http.Post("http://127.0.0.1:"+args[0]+"/v1/chat/completions", "application/json", strings.NewReader(body))
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s %s\n", resp.Status, text)
	fmt.Fprintf(ts.Stdout(), "node=%s origin=%s\n", resp.Header.Get("X-Viiwork-Node"), resp.Header.Get("X-Viiwork-Origin"))
}

// retry PATTERN COMMAND…: until what it prints matches.
func retry(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	until(ts, args[0], func() error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err
		}
		if !pattern.MatchString(ts.ReadFile("stdout")) {
			return errors.New("not in what it prints")
		}
		return nil
	})
}

// until repeats try for a minute at most: machines that run tests are busy ones.
func until(ts *testscript.TestScript, what string, try func() error) {
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited a minute for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// signal NAME [VERB]: to the one background process, or the one that does VERB.
func signalBackground(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
	cmds := ts.BackgroundCmds()
	if len(args) > 1 {
		cmds = slices.DeleteFunc(slices.Clone(cmds), func(c *exec.Cmd) bool { return !slices.Contains(c.Args, args[1]) })
	}
	if len(cmds) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("signal %s to %d background processes", args[0], len(cmds))
	}
	ts.Check(cmds[0].Process.Signal(signals[args[0]]))
}

// fakenode STATE_DIR: answers on the node's socket with the script's own files, by path: /v1/status is v1_status.json.
func fakeNode(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	l, err := net.Listen("unix", appliance.SocketPath(dir))
	ts.Check(err)
	root := ts.MkAbs(".")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join(root, strings.ReplaceAll(strings.Trim(r.URL.Path, "/"), "/", "_")+".json"))
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, `{"error":{"message":"there is no tea: boil water"}}`)
			return
		}
		_, _ = w.Write(text)
	})}
	go func() { _ = server.Serve(l) }()
	ts.Defer(func() { server.Close() })
}

// gguf FILE: writes a tiny model.
func writeGGUF(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(enginetest.WriteGGUF(ts.MkAbs(args[0]), enginetest.GGUFOptions{}))
}

// joincode FILE: what the code in it says.
func joinCode(ts *testscript.TestScript, _ bool, args []string) {
	code, err := mesh.ParseJoinCode(ts.ReadFile(args[0]))
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "network=%s control=%s addresses=%v secret=%s\n",
		code.Network, code.ControlURL, code.Addresses, base64.StdEncoding.EncodeToString(code.Secret))
}

// hold PORT: takes a port for the rest of the script.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	ts.Check(err)
	ts.Defer(func() { l.Close() })
}

// empty DIR: nothing may be in it.
func empty(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(entries) > 0 {
		ts.Fatalf("%s holds %v", args[0], entries)
	}
}

// stream PORT MODEL: begins a long answer and leaves it running; its client stays until the script ends.
func stream(ts *testscript.TestScript, _ bool, args []string) {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":8000,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`, args[1])
	resp, err := http.Post("http://127.0.0.1:"+args[0]+"/v1/chat/completions", "application/json", strings.NewReader(body))
	ts.Check(err)
	ts.Defer(func() { resp.Body.Close() })
	_, err = io.ReadFull(resp.Body, make([]byte, 64))
	ts.Check(err)
}

// engines: whether an engine of this script runs ("! engines": none may).
func engines(ts *testscript.TestScript, neg bool, _ []string) {
	if pids := enginesBelow(ts.Getenv("WORK")); (len(pids) == 0) != neg {
		ts.Fatalf("engines that run: %v", pids)
	}
}

// gone: waits until no engine of this script runs.
func gone(ts *testscript.TestScript, _ bool, _ []string) {
	until(ts, "the end of the engines", func() error {
		if pids := enginesBelow(ts.Getenv("WORK")); len(pids) > 0 {
			return fmt.Errorf("engines that run: %v", pids)
		}
		return nil
	})
}

// enginesBelow finds the processes that were started with a key file below dir.
func enginesBelow(dir string) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path) // it may end while we look
		_, key, found := strings.Cut(string(line), "--api-key-file\x00")
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && found && strings.HasPrefix(key, dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endEngines is for scripts that failed halfway.
func endEngines(dir string) {
	for _, pid := range enginesBelow(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
