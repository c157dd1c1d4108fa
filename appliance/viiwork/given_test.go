package main_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/status"
)

// listening opens a listener and returns its file.
func listening(t *testing.T, addr string) *os.File {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestAGivenListenerThatNothingNamesIsRefused: who set it up would wait at a port where nobody answers.
func TestAGivenListenerThatNothingNamesIsRefused(t *testing.T) {
	elsewhere := listening(t, "127.0.0.1:0")
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for want, f := range map[string]*os.File{
		"neither api.local nor api.host":  elsewhere,
		"it is not a socket that listens": plain,
	} {
		s, _ := place(t, itself(t))
		s.t = t
		s.held = []heldFile{{"mine.socket", f}}
		s.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.state + ".notify", Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.notify.Close()
		cmd := s.command()
		cmd.Stdout, cmd.Stderr = nil, nil
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), `"mine.socket"`) {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// TestWhatAnEarlierConfigurationListenedOnIsClosed: the port of before is free, and the manager holds the new one.
func TestWhatAnEarlierConfigurationListenedOnIsClosed(t *testing.T) {
	s, url := place(t, itself(t))
	old := listening(t, "127.0.0.1:0")
	l, err := net.FileListener(old)
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s.held = []heldFile{{"viiwork", old}}
	s.supervise(t)
	s.serves(url)
	s.await("the new listener", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.held) == 1 && s.held[0].file != old })
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Errorf("%s still takes connections", addr)
	}
	if h := s.restart(); h.From == "" || h.Swap < 0 {
		t.Errorf("took over by %+v", h)
	}
}

// TestEnginesGetNoListener: the port would stay taken as long as the engine lives, and its clients would wait for an answer
// that never comes.
func TestEnginesGetNoListener(t *testing.T) {
	s, url := place(t, itself(t))
	s.supervise(t)
	s.serves(url)
	s.restart() // now it has been given its listener
	before := s.engines()["m#0"]
	if err := exec.Command("kill", "-9", strings.TrimPrefix(before, "pid ")).Run(); err != nil {
		t.Fatal(err)
	}
	var pid string
	s.await("another engine", func() bool {
		pid = strings.TrimPrefix(s.engines()["m#0"], "pid ")
		return pid != "" && "pid "+pid != before
	})
	s.serves(url)
	environ, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	if strings.Contains(string(environ), "LISTEN_") || strings.Contains(string(environ), "NOTIFY_SOCKET") {
		t.Errorf("the engine has %q", environ)
	}
	held, err := s.holding()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	if len(files) < 3 {
		t.Fatalf("the engine has the files %v", files)
	}
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, held) {
			t.Errorf("the engine has the listener as %s", path)
		}
	}
}

// TestOnlyTheSocketMayWishForTheEnd, and only in words that make sense.
func TestOnlyTheSocketMayWishForTheEnd(t *testing.T) {
	s, url := place(t, itself(t))
	s.supervise(t)
	s.serves(url)
	var told status.Restart
	for body, want := range map[string]int{`{"drain_s":-1}`: 400, `{"drain_s":1e9}`: 400, `{"drain_s":"x"}`: 400, `[`: 400} {
		if code := s.call(http.MethodPost, "/api/update/restart", body, &told); code != want {
			t.Errorf("%s is answered with %d", body, code)
		}
	}
	resp, err := http.Post(url+"/api/update/restart", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("over the port: %s", resp.Status)
	}
	if code := s.call(http.MethodGet, "/api/update/restart", "", &told); code != 200 || told.Ending || told.PID == 0 {
		t.Errorf("%d %+v", code, told)
	}
}

// TestForgedNumberOfListenersIsRefusedInWords: the files of these numbers are Go's own, and closed they end it in a crash.
func TestForgedNumberOfListenersIsRefusedInWords(t *testing.T) {
	s, _ := place(t, itself(t))
	cmd := exec.Command("/bin/sh", "-c", `export LISTEN_PID=$$ LISTEN_FDS=64; exec "$0" "$@"`, s.program(), "serve", "--config", s.config)
	cmd.Env = append(os.Environ(), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 || !strings.Contains(string(out), "it is not a socket that listens") || strings.Contains(string(out), "goroutine") {
		t.Errorf("%v: %.2000s", err, out)
	}
}
