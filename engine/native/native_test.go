package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/native"
)

func TestMain(m *testing.M) {
	if enginetest.IsProgram() {
		os.Exit(enginetest.Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

func bind(host string, port int) []string {
	return []string{"--host", host, "--port", strconv.Itoa(port)}
}

// script writes a program that stands for an engine.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	if err := enginetest.WriteProgram(path, []byte("#!/bin/sh\n"+text)); err != nil {
		t.Fatal(err)
	}
	return path
}

func spec(program string) engine.Spec {
	return engine.Spec{Backend: "org/m#0", Model: engine.Model{Binary: program}, Bind: bind, Hash: "abc"}
}

func start(t *testing.T, r *native.Runner, s engine.Spec) engine.Process {
	t.Helper()
	p, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// wait is for ends that are due; the limit only keeps a broken test from hanging.
func wait(t *testing.T, p engine.Process) engine.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	exit, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("waiting for %s: %v", p.Record().ID, err)
	}
	return exit
}

func logOf(t *testing.T, p engine.Process, tail int, follow bool) string {
	t.Helper()
	var log bytes.Buffer
	if err := p.Logs(t.Context(), &log, tail, follow); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

// said waits until the engine has printed text.
func said(t *testing.T, p engine.Process, text string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if log := logOf(t, p, -1, false); strings.Contains(log, text) {
			return log
		}
	}
	t.Fatalf("%q was never printed; the log is %q", text, logOf(t, p, -1, false))
	return ""
}

func groupLives(pid int) bool { return syscall.Kill(-pid, 0) == nil }

// groupGone gives init the time it takes to reap orphans that were killed.
func groupGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !groupLives(pid) {
			return
		}
	}
	t.Error("something of the engine is still there")
}

func records(t *testing.T, state string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(state, "engines", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestStopEndsEverythingTheEngineStarted(t *testing.T) {
	for name, text := range map[string]string{
		"obedient":             "sleep 600 & echo up; wait",
		"ignores SIGTERM":      "trap '' TERM; sleep 600 & echo up; while :; do sleep 1; done",
		"leader goes, one not": "(trap '' TERM; echo up; while :; do sleep 1; done) & trap 'exit 0' TERM; wait",
	} {
		// Written before any of them starts: a program cannot be run while a fork still holds it open for writing.
		program := script(t, text)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			p := start(t, native.New(native.Config{StateDir: state}), spec(program))
			said(t, p, "up")
			if err := p.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			wait(t, p)
			groupGone(t, p.Record().PID)
			if left := records(t, state); len(left) > 0 {
				t.Errorf("records left: %v", left)
			}
		})
	}
}

func TestSecondSIGTERMComesBeforeTheKill(t *testing.T) {
	p := start(t, native.New(native.Config{StateDir: t.TempDir()}),
		spec(script(t, "n=0; trap 'n=$((n+1)); echo term $n; [ $n -lt 2 ] || exit 7' TERM; echo up; while :; do sleep 0.1; done")))
	said(t, p, "up")
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Code != 7 || exit.Reason != "exit status 7" {
		t.Errorf("exit %+v, want the status of the second SIGTERM", exit)
	}
}

func TestStopWithAnEndedContextStillStops(t *testing.T) {
	p := start(t, native.New(native.Config{StateDir: t.TempDir()}), spec(script(t, "trap '' TERM; echo up; while :; do sleep 1; done")))
	said(t, p, "up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Reason != "killed by SIGKILL" || exit.Code != -1 {
		t.Errorf("exit %+v", exit)
	}
}

func TestNextNodeAdoptsTheSameProcess(t *testing.T) {
	state := t.TempDir()
	first := start(t, native.New(native.Config{StateDir: state}), spec(script(t, "echo up; exec sleep 600")))
	said(t, first, "up")

	found, err := native.New(native.Config{StateDir: state}).Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Record() != first.Record() {
		t.Fatalf("found %v, %v; want the one of %+v", found, err, first.Record())
	}
	if log := logOf(t, found[0], -1, false); !strings.Contains(log, "up") {
		t.Errorf("the adopted engine's log is %q", log)
	}
	if strangers, err := native.New(native.Config{StateDir: t.TempDir()}).Find(t.Context()); err != nil || len(strangers) > 0 {
		t.Errorf("a node over another state folder found %v, %v", strangers, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := found[0].Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a living engine: %v", err)
	}
	if err := found[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, first)
	if left := records(t, state); len(left) > 0 {
		t.Errorf("records left: %v", left)
	}
	groupGone(t, first.Record().PID)
}

// TestProcessWithARecycledNumberIsNotTouched gives a stranger the number of a record with another start time.
func TestProcessWithARecycledNumberIsNotTouched(t *testing.T) {
	state := t.TempDir()
	r := native.New(native.Config{StateDir: state})
	p := start(t, r, spec(script(t, "echo up; exec sleep 600")))
	said(t, p, "up")
	path := records(t, state)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rec map[string]any
	if err := json.Unmarshal(text, &rec); err != nil {
		t.Fatal(err)
	}
	rec["started"] = fmt.Sprint(rec["started"], "1")
	text, _ = json.Marshal(rec)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := r.Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if left := records(t, state); len(left) > 0 {
		t.Errorf("the stale record stays: %v", left)
	}
	if !groupLives(p.Record().PID) {
		t.Error("the stranger was ended")
	}
}

func TestHostileRecordsAreRemovedAndHarmless(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "engines")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{
		"", "{", "[]", "null",
		`{"pid":-1,"started":"x","port":1,"backend":"m#0"}`,
		`{"pid":0,"started":"","port":0}`,
		fmt.Sprintf(`{"pid":%d,"started":"","port":80,"backend":"m#0"}`, os.Getpid()),
		strings.Repeat("[", 1<<17),
	} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("r%d.json", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := native.New(native.Config{StateDir: state}).Find(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if left := records(t, state); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestWhatIsNoPlainFileIsNoRecord: a pipe would keep the node from starting, and behind a link lies another node's engine.
func TestWhatIsNoPlainFileIsNoRecord(t *testing.T) {
	state, other := t.TempDir(), t.TempDir()
	p := start(t, native.New(native.Config{StateDir: other}), spec(script(t, "exec sleep 600")))
	dir := filepath.Join(state, "engines")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	theirs := records(t, other)[0]
	if err := os.Symlink(theirs, filepath.Join(dir, filepath.Base(theirs))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := native.New(native.Config{StateDir: state})
	if all, err := r.Recorded(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("recorded: %v, %v", all, err)
	}
	if found, err := r.Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if left := records(t, state); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if len(records(t, other)) != 1 || !groupLives(p.Record().PID) {
		t.Error("the other node's engine, or its record, is gone")
	}
}

func TestRecordIsForTheOwnerAlone(t *testing.T) {
	state := t.TempDir()
	start(t, native.New(native.Config{StateDir: state}), spec(script(t, "exec sleep 600")))
	for _, path := range records(t, state) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(state, "engines", ".record-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEndIsToldWithItsStatus(t *testing.T) {
	for text, want := range map[string]engine.Exit{
		"exit 0":      {Code: 0, Reason: "exit status 0"},
		"exit 3":      {Code: 3, Reason: "exit status 3"},
		"kill -9 $$":  {Code: -1, Reason: "killed by SIGKILL"},
		"kill -11 $$": {Code: -1, Reason: "killed by SIGSEGV"},
	} {
		state := t.TempDir()
		p := start(t, native.New(native.Config{StateDir: state}), spec(script(t, text)))
		if got := wait(t, p); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if again := wait(t, p); again != want {
			t.Errorf("%s, asked again: %+v", text, again)
		}
		if found, err := native.New(native.Config{StateDir: state}).Find(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%s: found %v, %v after the end", text, found, err)
		}
	}
}

func TestCrashedEngineLeavesNoChildren(t *testing.T) {
	p := start(t, native.New(native.Config{StateDir: t.TempDir()}), spec(script(t, "sleep 600 & exit 1")))
	wait(t, p)
	groupGone(t, p.Record().PID)
}

func TestLogsOfThisRunOnly(t *testing.T) {
	state := t.TempDir()
	r := native.New(native.Config{StateDir: state})
	first := start(t, r, spec(script(t, "echo first")))
	wait(t, first)
	p := start(t, r, spec(script(t, "echo one; echo two >&2; echo three; read x || echo no input")))
	if got := logOf(t, p, -1, true); got != "one\ntwo\nthree\nno input\n" {
		t.Errorf("followed log %q", got)
	}
	for tail, want := range map[int]string{0: "", 1: "no input\n", 3: "two\nthree\nno input\n", 9: "one\ntwo\nthree\nno input\n"} {
		if got := logOf(t, p, tail, false); got != want {
			t.Errorf("last %d lines: %q, want %q", tail, got, want)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(state, "engines", "*.log.1"))
	if len(kept) != 1 {
		t.Fatalf("the log before is kept in %v", kept)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || string(text) != "first\n" {
		t.Errorf("the log before: %q, %v", text, err)
	}
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	p := start(t, native.New(native.Config{StateDir: t.TempDir()}), spec(script(t, "echo up; exec sleep 600")))
	said(t, p, "up")
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	enough := writerFunc(func(text []byte) (int, error) {
		cancel()
		return log.Write(text)
	})
	if err := p.Logs(ctx, enough, -1, true); err != nil || log.String() != "up\n" {
		t.Errorf("log %q, %v", log.String(), err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
