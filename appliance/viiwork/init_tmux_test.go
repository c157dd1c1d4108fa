package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

// terminal is a real one, driven by tmux.
type terminal struct {
	t      *testing.T
	socket string
	races  string // where the race detector writes
	name   string
	begun  time.Time // of the whole, for the log
}

// terminals opens a tmux server of the test's own.
func terminals(t *testing.T) func(name, command string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux")
	}
	socket := filepath.Join(t.TempDir(), "tmux")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() })
	races := filepath.Join(t.TempDir(), "race")
	t.Cleanup(func() { onlyKnownRaces(t, races) })
	begun := time.Now()
	return func(name, command string) *terminal {
		term := &terminal{t, socket, races, name, begun}
		term.tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "150", "-y", "60", "sh", "-c", command+"; echo \"[left with $?]\"; sleep 600")
		return term
	}
}

// onlyKnownRaces reads what the race detector has said of programs in terminals. One is bubbletea's: it closes its reader of
// keys while that may still wait for one.
func onlyKnownRaces(t *testing.T, path string) {
	files, _ := filepath.Glob(path + ".*")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, race := range strings.Split(string(text), "WARNING: DATA RACE")[1:] {
			if !strings.Contains(race, "cancelreader.(*epollCancelReader).Close") {
				t.Errorf("a race:%s", race)
			}
		}
	}
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE=exitcode=0 log_path="+term.races) // not across the screen that is read here
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// screen is all that was shown, with what has scrolled away.
func (term *terminal) screen() string {
	return term.tmux("capture-pane", "-p", "-J", "-S", "-2000", "-t", term.name)
}

// await waits until the screen shows what matches, and returns the match's groups.
func (term *terminal) await(pattern string) []string {
	term.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if found := re.FindStringSubmatch(term.screen()); found != nil {
			term.t.Logf("%5.1f s  %-9s shows %s", time.Since(term.begun).Seconds(), term.name, pattern)
			return found
		}
	}
	term.t.Fatalf("%s never showed %s:\n%s", term.name, pattern, term.screen())
	return nil
}

// press sends keys by tmux's names for them.
func (term *terminal) press(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys", "-t", term.name}, keys...)...)
}

// answer waits for a question and writes a line in place of what stands there.
func (term *terminal) answer(question, text string) {
	term.t.Helper()
	term.await(question)
	time.Sleep(200 * time.Millisecond) // a form that is just drawn may not listen yet
	term.press("C-u")
	term.tmux("send-keys", "-t", term.name, "-l", text)
	term.press("Enter")
}

// choose waits for a question and presses keys.
func (term *terminal) choose(question string, keys ...string) {
	term.t.Helper()
	term.await(question)
	time.Sleep(200 * time.Millisecond)
	for _, key := range keys {
		term.press(key)
		time.Sleep(50 * time.Millisecond)
	}
}

// newcomer is a machine of its own as far as one machine can have several: addresses, folders, ports.
type newcomer struct {
	dir, host, engine   string
	port, gossip, local int

	config, answers string // set by furnish
}

// furnish makes its folders, and the answers that nobody would have to give on a machine of its own.
func (n newcomer) furnish(t *testing.T) newcomer {
	t.Helper()
	n.config, n.answers = filepath.Join(n.dir, "etc", "viiwork.yaml"), n.dir+"-answers.yaml"
	if err := os.MkdirAll(filepath.Join(n.dir, "models"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("node: {state_dir: %q}\napi: {port: %d, host: %s, local: \"127.0.0.1:%d\"}\nengine: {runner: native, binary: %q}\nmesh: {bind_port: %d, mdns: no}\nservice: none\n",
		filepath.Join(n.dir, "state"), n.port, n.host, n.local, n.engine, n.gossip)
	if err := os.WriteFile(n.answers, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n newcomer) init() string {
	return fmt.Sprintf("viiwork init --config '%s' --answers '%s'", n.config, n.answers)
}

// command runs viiwork on the newcomer and returns what it printed.
func (n newcomer) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("viiwork", append(args, "--config", n.config)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// TestTwoMachinesAreSetUpInATerminal: as a new user on a machine without cards. The first starts a mesh, its join code
// brings the second in, both serve, and nothing stays of a wizard that was left half-way.
func TestTwoMachinesAreSetUpInATerminal(t *testing.T) {
	open := terminals(t)
	engine := realEngine()
	if engine == "" {
		t.Skip("no llama-server: set VIIWORK_TEST_ENGINE or put one on PATH")
	}
	root := t.TempDir()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "VIIWORK_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	all := newPorts()
	port, err := all.free()
	if err != nil {
		t.Fatal(err)
	}
	gossip, err := all.free()
	if err != nil {
		t.Fatal(err)
	}
	one := newcomer{dir: filepath.Join(root, "one"), host: "127.0.0.2", engine: engine, port: port, gossip: gossip, local: port}.furnish(t)
	two := newcomer{dir: filepath.Join(root, "two"), host: "127.0.0.3", engine: engine, port: port, gossip: gossip, local: port + 1}.furnish(t)
	write := func(path string) {
		if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(one.dir, "models", "tiny-Q8_0.gguf"))
	write(filepath.Join(two.dir, "models", "download.gguf"))

	before := listing(t, two.dir)
	left := open("left", two.init())
	left.answer("What is this machine called", "cellar")
	left.answer("Where are the model files", filepath.Join(two.dir, "models"))
	left.choose("Which models does this machine serve", "Enter")
	left.choose("How does this machine come to its mesh", "Down", "Down", "Enter")
	left.choose("Which mesh\\?", "C-c")
	left.await(`this machine is as it was`)
	left.await(`\[left with 4\]`)
	if after := listing(t, two.dir); after != before {
		t.Errorf("left behind by Ctrl-C:\n%s\nbefore:\n%s", after, before)
	}

	first := open("first", one.init())
	first.answer("What is this machine called", "attic")
	first.answer("Where are the model files", filepath.Join(one.dir, "models"))
	first.choose("Which models does this machine serve", "Space", "Enter")
	first.choose("What is tiny-Q8_0.gguf called", "Enter")
	first.choose("What each model gets", "Enter")
	first.choose("How does this machine come to its mesh", "Down", "Down", "Enter")
	first.choose("Which mesh\\?", "Enter")
	first.choose("Write these files\\?", "Enter")
	stopOne := serve(t, open, "serve-one", first, one)
	first.await(`^PASS +node `)
	first.await(`^SKIP +joined `)
	first.await(`^PASS +content:tiny `)
	first.await(`^[A-Z]+ +tools:tiny `) // a thousand tokens: the longest of all on a machine that computes slowly
	first.await(`^PASS +cancel:tiny `)

	code := strings.TrimSpace(one.command(t, "join-code", "--quiet"))
	second := open("second", two.init())
	second.answer("What is this machine called", "cellar")
	second.answer("Where are the model files", filepath.Join(two.dir, "models"))
	second.choose("Which models does this machine serve", "Space", "Enter")
	second.choose("What is download.gguf called", "Enter")
	second.choose("What each model gets", "Enter")
	second.choose("How does this machine come to its mesh", "Enter")
	second.answer("The join code", code)
	second.choose("calls it tiny", "Enter")
	second.choose("Write these files\\?", "Enter")
	if screen := second.screen(); strings.Contains(screen, code) {
		t.Error("the join code stays on the screen")
	}
	stopTwo := serve(t, open, "serve-two", second, two)
	for _, check := range []string{"node", "config", "joined", "ports", "ready:tiny", "content:tiny"} {
		second.await(`^PASS +` + check + ` `)
	}
	second.await(`^[A-Z]+ +tools:tiny `)
	for _, check := range []string{"pin:tiny", "saturate:tiny", "alias:tiny", "cancel:tiny"} {
		second.await(`^PASS +` + check + ` `)
	}

	alive := regexp.MustCompile(`(?m)^(attic|cellar) +alive `)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // who is busy may be silent for a moment
		seen := two.command(t, "status", "--mesh")
		if len(alive.FindAllString(seen, -1)) == 2 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the mesh has not both:\n%s", seen)
		}
	}
	one.command(t, "doctor")
	two.command(t, "doctor")
	secret := strings.TrimSpace(one.command(t, "join-code", "--secret"))
	for _, term := range []*terminal{first, second} {
		if strings.Contains(term.screen(), secret) {
			t.Errorf("%s shows the secret", term.name)
		}
	}

	stopOne()
	stopTwo()
	for _, n := range []newcomer{one, two} {
		n.command(t, "uninstall", "--yes")
		stays := regexp.MustCompile(`/(models(/[^/]*\.gguf)?|etc(/viiwork\.yaml)?|pid)? `)
		for line := range strings.Lines(listing(t, n.dir)) {
			if rest := strings.TrimPrefix(line, n.dir); !stays.MatchString("/" + strings.TrimPrefix(rest, "/")) {
				t.Errorf("uninstall leaves %s", line)
			}
		}
	}
}

// TestQuestionsFitASmallTerminal: what there is to choose from is seen, and of a question that is answered nothing stays
// but its answer: not where an answer was wrong, nor where the screen has scrolled.
func TestQuestionsFitASmallTerminal(t *testing.T) {
	open := terminals(t)
	all := newPorts()
	port, err := all.free()
	if err != nil {
		t.Fatal(err)
	}
	gossip, err := all.free()
	if err != nil {
		t.Fatal(err)
	}
	n := newcomer{dir: filepath.Join(t.TempDir(), "small"), host: "127.0.0.2", engine: "/bin/true", port: port, gossip: gossip, local: port}.furnish(t)
	if err := enginetest.WriteGGUF(filepath.Join(n.dir, "models", "tiny-Q8_0.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	term := open("small", "read go; "+n.init())
	term.tmux("resize-window", "-t", "small", "-x", "80", "-y", "24")
	term.press("Enter")
	term.answer("What is this machine called", "not_a_name")
	term.answer("use letters a to z", "attic")
	term.answer("Where are the model files", filepath.Join(n.dir, "models"))
	term.choose(`┃ > .*tiny-Q8_0\.gguf`, "Space", "Enter")
	term.choose("What is tiny-Q8_0.gguf called", "Enter")
	term.choose("Accept this plan", "Enter")
	term.choose(`┃ > I have a join code`, "Enter")
	term.choose("It is like a password", "C-c")
	term.await(`\[left with 4\]`)
	if screen := term.screen(); strings.Contains(screen, "┃") || !strings.Contains(screen, "What is this machine called in the mesh?\n  attic\n") {
		t.Errorf("parts of the questions stay on the screen:\n%s", screen)
	}
}

// serve starts a node by the very words that the wizard said, in a terminal of its own.
func serve(t *testing.T, open func(name, command string) *terminal, name string, asked *terminal, n newcomer) (stop func()) {
	t.Helper()
	words := asked.await(`Start the node in another terminal: '(.*)'`)[1]
	if strings.Count(words, n.config) != 1 {
		t.Fatalf("the wizard said %q", words)
	}
	pid := filepath.Join(n.dir, "pid")
	open(name, "echo $$ >'"+pid+"'; exec "+words+" --stop-engines")
	stop = func() {
		text, err := os.ReadFile(pid)
		if err != nil {
			return
		}
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return
		}
		_ = syscall.Kill(number, syscall.SIGTERM)
		for limit := time.Now().Add(time.Minute); runs(number); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Errorf("%s still runs a minute after it was told to end", name)
				return
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// runs reports whether the process has not ended. tmux may leave one that has for long without asking how.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // where there is none, the signal has to do
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// listing is every file below dir, with its size.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
