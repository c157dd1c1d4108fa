package top_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// terminal is a real one, driven by tmux.
type terminal struct {
	t                   *testing.T
	socket, away, ended string
}

func startTerminal(t *testing.T, wide, high int, env ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	dir := t.TempDir()
	x := &terminal{t: t, socket: filepath.Join(dir, "tmux"), away: filepath.Join(dir, "away"), ended: filepath.Join(dir, "ended")}
	command := fmt.Sprintf("env LANG=C.UTF-8 TOP_TEST_STATE=%s %s %s; echo $? >%s", x.away, strings.Join(env, " "), os.Args[0], x.ended)
	x.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", fmt.Sprint(wide), "-y", fmt.Sprint(high), command)
	x.tmux("set-option", "-g", "remain-on-exit", "on")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (x *terminal) press(keys ...string) {
	x.t.Helper()
	x.tmux(append([]string{"send-keys"}, keys...)...)
}

// leave presses escape, alone: with what follows at once it would be another key.
func (x *terminal) leave(shows string) {
	x.t.Helper()
	x.press("Escape")
	x.shows(shows)
}

func (x *terminal) screen() string {
	x.t.Helper()
	return x.tmux("capture-pane", "-p")
}

// shows waits until all of these are on the screen. The limit only ends a test that has failed already.
func (x *terminal) shows(all ...string) string {
	x.t.Helper()
	screen := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		screen = x.screen()
		missing := false
		for _, text := range all {
			missing = missing || !strings.Contains(screen, text)
		}
		if !missing {
			return screen
		}
	}
	x.t.Fatalf("never all of %q on the screen:\n%s", all, screen)
	return ""
}

// ends waits until the program has, without a fault. Its shell says how: tmux may miss the end of a child.
func (x *terminal) ends() {
	x.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		switch said, _ := os.ReadFile(x.ended); {
		case string(said) == "0\n":
			return
		case len(said) > 1 || time.Now().After(end):
			x.t.Fatalf("it has not ended well: %q", said)
		}
	}
}

// TestTerminalShowsAllOnASmallScreen also walks the keys: sort, filter, open, log, back, here.
func TestTerminalShowsAllOnASmallScreen(t *testing.T) {
	x := startTerminal(t, 80, 24)
	screen := x.shows("node-00 is ready", "─ machines", "─ models", "graphics cards of 1 of 20 machines", "in flight by 1 of 20 machines", "quit")
	for i, line := range strings.Split(strings.TrimRight(screen, "\n"), "\n") {
		if utf8.RuneCountInString(line) > 80 || i >= 24 {
			t.Errorf("line %d does not fit: %q", i, line)
		}
	}
	x.press("/")
	x.shows("filter:")
	x.press("node-1")
	x.shows("of 10", "node-10")
	x.press("Enter")
	x.shows("q quit")
	x.leave("11 of 20")
	x.press("Tab", "l")
	x.shows("log of org/model-a", "first line of org/model-a", "ready")
	x.leave("tab panel")
	x.press("Tab", "Tab", "s", "s")
	x.shows("by age, down", "50.0 s")
	x.press("Enter")
	x.shows("request 0000000000000032", "first token", "Why there: the cheapest in seconds (cost)")
	x.leave("tab panel")
	x.press("m")
	x.shows("backends of node-00", "org/model-a#0")
	x.press("?")
	x.shows("turn order", "any key: back")
	x.press("q")
	x.ends()
}

func TestTerminalUsesALargeScreen(t *testing.T) {
	x := startTerminal(t, 200, 60, "NO_COLOR=1")
	x.shows("node-19", "192.168.1.23:8086", "MODELS", "SESSION", "Card of 24 GiB", "14.0/24.0", "171/350 W")
	if colours := x.tmux("capture-pane", "-p", "-e"); strings.Contains(colours, "\x1b[32m") || strings.Contains(colours, "\x1b[33m") {
		t.Error("colour in spite of NO_COLOR")
	}
}

// TestTerminalSaysThatTheNodeIsAwayAndComesBack keeps what was known on the screen meanwhile.
func TestTerminalSaysThatTheNodeIsAwayAndComesBack(t *testing.T) {
	x := startTerminal(t, 80, 24)
	x.shows("─ machines")
	if err := os.WriteFile(x.away, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.shows("the node does not answer since", "trying again", "node-00 is ready")
	if err := os.Remove(x.away); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); strings.Contains(x.screen(), "does not answer"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came back")
		}
	}
}
