package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
	"viiwork/engine/native"
)

// pair is one model on two engines of two slots, with all that stands between them and whoever saves a slot.
type pair struct {
	*engine.Engine
	t *testing.T
}

func newPair(t *testing.T, binary string, args ...string) pair {
	t.Helper()
	dir := t.TempDir()
	model := filepath.Join(dir, "m.gguf")
	if err := enginetest.WriteGGUF(model, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		StateDir: filepath.Join(dir, "state"), Spool: filepath.Join(dir, "spool"), Dialect: llama.New(nil),
		Runners: map[engine.RunnerKind]engine.Runner{engine.RunnerNative: native.New(native.Config{StateDir: filepath.Join(dir, "state")})},
		Health:  engine.HealthConfig{Interval: 100 * time.Millisecond, Stall: 20 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.StopEngines(true)
	e.Apply([]engine.Model{{Name: "m", Path: model, Runner: engine.RunnerNative, Binary: binary, Context: 4096, Parallel: 2,
		Backends: make([]engine.BackendSpec, 2), StartupTimeout: time.Minute, Args: args}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	p := pair{e, t}
	p.await("both are ready", func() bool {
		return !slices.ContainsFunc(e.Snapshot()[0].Backends, func(b engine.BackendState) bool { return b.State != engine.StateReady })
	})
	return p
}

func (p pair) await(what string, holds func() bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("never came: %s: %+v", what, p.Snapshot()[0].Backends)
		}
	}
}

// reply is an answer and what it cost.
type reply struct {
	Choices []struct {
		Message struct{ Content string }
	}
	Usage struct {
		Prompt  int `json:"prompt_tokens"`
		Total   int `json:"total_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

// turn asks one backend for an answer.
func (p pair) turn(backend string, messages ...string) reply {
	p.t.Helper()
	l, err := p.Acquire(p.t.Context(), engine.Request{Model: "m", Backends: []string{backend}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Release()
	var list []map[string]string
	for i, m := range messages {
		list = append(list, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": m})
	}
	body, err := json.Marshal(map[string]any{"messages": list, "max_tokens": 30, "temperature": 0, "ignore_eos": true})
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := l.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	var s reply
	if err != nil || json.Unmarshal(data, &s) != nil || len(s.Choices) != 1 {
		p.t.Fatalf("answer %.300s, %v", data, err)
	}
	return s
}

// slotOf finds the slot of the last answer as one must who is not told: idle, with all its tokens but the last, of the
// newest task.
func (p pair) slotOf(backend string, s reply) int {
	p.t.Helper()
	slots, err := p.AskSlots(p.t.Context(), backend)
	if err != nil {
		p.t.Fatal(err)
	}
	newest := engine.SlotState{ID: -1, Task: -1}
	for _, slot := range slots {
		if !slot.Processing && slot.Tokens == s.Usage.Total-1 && slot.Task > newest.Task {
			newest = slot
		}
	}
	if newest.ID < 0 {
		p.t.Fatalf("no slot holds the answer of %d tokens: %+v", s.Usage.Total, slots)
	}
	return newest.ID
}

func TestAConversationMovesToTheOtherEngine(t *testing.T) {
	t.Run("fake", func(t *testing.T) { moves(t, enginetest.Program(t)) })
	t.Run("real", func(t *testing.T) { moves(t, realEngine(t)) })
}

func moves(t *testing.T, binary string) {
	p := newPair(t, binary, "-ctk", "f16")
	home, away := "m#0", "m#1"
	a, ok := p.KVTraits(home)
	if b, there := p.KVTraits(away); !ok || !there || a != b || a.Build == "" || !a.Unified || a.Slots != 2 || !a.Flash || a.TypeK != "f16" {
		t.Errorf("traits are %+v and %+v", a, b)
	}
	first := strings.Repeat("What is held here goes elsewhere. ", 50)
	answer := p.turn(home, first)
	path, saved, err := p.SaveSlot(t.Context(), home, p.slotOf(home, answer))
	if err != nil || saved.Tokens != answer.Usage.Total-1 {
		t.Fatalf("saved %+v, %v; want all of %d tokens but one", saved, err, answer.Usage.Total)
	}
	to, _ := p.SlotFolder(away)
	there := filepath.Join(to, "arrived.kv")
	if err := os.Rename(path, there); err != nil {
		t.Fatal(err)
	}
	if restored, err := p.RestoreSlot(t.Context(), away, 1, there); err != nil || restored.Tokens != saved.Tokens || restored.Bytes != saved.Bytes {
		t.Fatalf("restored %+v, %v; want %+v", restored, err, saved)
	}
	next := []string{first, answer.Choices[0].Message.Content, "And then?"}
	moved, stayed := p.turn(away, next...), p.turn(home, next...)
	if got, want := moved.Usage.Details.Cached, saved.Tokens; got < want*9/10 {
		t.Errorf("%d of %d tokens were of use in the other engine", got, want)
	}
	if moved.Choices[0].Message.Content != stayed.Choices[0].Message.Content {
		t.Error("the conversation goes on otherwise than where it was")
	}
}

func TestAnEngineKilledInASaveComesBackWithAllItsSlots(t *testing.T) {
	p := newPair(t, enginetest.Program(t), "--fake-state-bytes", fmt.Sprint(1<<20), "--fake-save-bps", fmt.Sprint(20<<20))
	answer := p.turn("m#0", strings.Repeat("x", 400))
	slot := p.slotOf("m#0", answer)
	dir, _ := p.SlotFolder("m#0")
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.SaveSlot(context.Background(), "m#0", slot)
		ended <- err
	}()
	p.await("a part of the file", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		return len(files) == 1
	})
	var pid int
	if _, err := fmt.Sscanf(p.Snapshot()[0].Backends[0].Process, "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("the save ended with %v", err)
	}
	p.await("it is back", func() bool {
		b := p.Snapshot()[0].Backends[0]
		return b.Restarts == 1 && b.State == engine.StateReady && len(b.Slots) == 2 && b.Slots[0].State == "free" && b.Slots[1].State == "free"
	})
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("%q are left", files)
	}
	if again := p.turn("m#0", "x"); again.Usage.Total == 0 {
		t.Errorf("the new engine answers %+v", again)
	}
}
