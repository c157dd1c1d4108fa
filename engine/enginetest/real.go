package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// TB is what these functions need of a testing.TB; so that programs can use this package without the testing one.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
	TempDir() string
}

// RealEnv names the real program, where it is not llama-server on PATH.
const RealEnv = "VIIWORK_TEST_ENGINE"

// Real is the path of a real llama-server; the test is skipped where there is none.
func Real(t TB) string {
	t.Helper()
	name := os.Getenv(RealEnv)
	if name == "" {
		name = "llama-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no real engine: %v (set %s to a llama-server program, or put one on PATH)", err, RealEnv)
	}
	return path
}

// loadTime is how long a real server may take with a tiny model on a busy machine.
const loadTime = time.Minute

// StartReal starts a real llama-server on a free port with the given model and flags, waits until it is ready, and
// returns its URL. It is killed when the test ends; its output is logged if the test failed.
func StartReal(t TB, model string, flags ...string) string {
	t.Helper()
	program := Real(t)
	logPath := filepath.Join(t.TempDir(), "engine.log")
	logFile, err := os.Create(logPath)
	if err != nil {
		t.Fatalf("starting a real engine: %v", err)
	}
	port := FreePort(t)
	// One thread: several wait for each other at each layer, and where others have the processors a token takes a second then,
	// in which the server takes its clients for gone.
	cmd := exec.Command(program, append([]string{"-m", model, "--host", "127.0.0.1", "--port", strconv.Itoa(port), "-t", "1"}, flags...)...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a real engine: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		logFile.Close()
		if t.Failed() {
			out, _ := os.ReadFile(logPath)
			t.Logf("the engine's last words:\n%s", out[max(0, len(out)-4096):])
		}
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := waitReady(url, ended); err != nil {
		out, _ := os.ReadFile(logPath)
		t.Fatalf("starting a real engine: %v\n%s", err, out[max(0, len(out)-4096):])
	}
	return url
}

func waitReady(url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended while loading")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s", loadTime)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// FreePort is a loopback port that was free a moment ago: all an engine that wants a number can be given. It is none of
// those that the system hands out by itself, to other tests for example, before the engine listens.
func FreePort(t TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := 10000 + rand.IntN(4000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("looking for a free port: %v", err)
	return 0
}

// programEnv makes a test binary be the fake program: see IsProgram.
const programEnv = "VIIWORK_ENGINETEST_PROGRAM"

// IsProgram tells that this process was started through the path that Program gave out. A package that fakes the
// engine's program asks it first thing in its TestMain:
//
//	func TestMain(m *testing.M) {
//		if enginetest.IsProgram() {
//			os.Exit(enginetest.Main(os.Args[1:]))
//		}
//		os.Exit(m.Run())
//	}
func IsProgram() bool { return os.Getenv(programEnv) != "" }

// Program is the path of a program that behaves as llama-server does; see [Main] for its flags. The calling package's
// TestMain must ask IsProgram.
func Program(t TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("making a fake engine program: %v", err)
	}
	path := filepath.Join(t.TempDir(), "llama-server")
	// exec keeps the pid, so that whoever started the script owns the server. Under the race detector a program sleeps a
	// second before it ends, and an engine's program is run thrice: twice to learn what it is.
	script := fmt.Sprintf("#!/bin/sh\nGORACE=\"$GORACE atexit_sleep_ms=0\" %s=1 exec '%s' \"$@\"\n", programEnv, strings.ReplaceAll(self, "'", `'\''`))
	if err := WriteProgram(path, []byte(script)); err != nil {
		t.Fatalf("making a fake engine program: %v", err)
	}
	return path
}

// WriteProgram writes a program that can be run at once, also where other goroutines start processes. Each of those would have
// the file open for writing until it has become another program, and as long as one has, it cannot be run: "text file busy".
func WriteProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}
