package setup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/gpu"
)

const gib = 1 << 30

// healthy is a machine on which everything is as it should be; cases break one thing at a time.
func healthy() setup.Probe {
	return setup.Probe{
		ConfigPath: "viiwork.yaml",
		Built:      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Node:       func(context.Context) error { return errors.New("no node answers") },
		Image:      func(context.Context, string) error { return nil },
		Program:    func(context.Context, string) error { return nil },
		Cards: func(context.Context) ([]gpu.Card, []gpu.Fault) {
			return []gpu.Card{{Index: 0, Accel: engine.AccelCUDA}, {Index: 1, Accel: engine.AccelCUDA}}, nil
		},
		HandOn: func(context.Context, string) error { return nil },
		Around: func(context.Context) (setup.Around, error) { return around(), nil },
		MTU:    func() map[string]int { return map[string]int{"eth0": 1500} },
		Nearby: func(context.Context) []string { return nil },
		OS:     "linux",
		Listen: func(string) error { return nil },
		Free:   func(string) (int64, error) { return 100 * gib, nil },
		Memory: func() (int64, error) { return 64 * gib, nil },
		Now:    func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) },
	}
}

// around is what a node tells of a mesh in which all is well.
func around() setup.Around {
	return setup.Around{
		Node:    status.Node{Node: "n", Models: []status.Model{{Name: "plain", Backends: []status.Backend{{ID: "plain#0", State: "ready"}}}}},
		Cluster: status.Cluster{Members: []status.Member{{Name: "n", State: "alive", Version: "2.1"}, {Name: "cellar", State: "alive", Version: "2.1"}}},
		KV:      []status.KVModel{{Name: "plain", Enabled: true}},
	}
}

// machine is a directory with a model file and the configuration that serves it three ways.
func machine(t *testing.T) (dir, text string) {
	t.Helper()
	dir = t.TempDir()
	if err := enginetest.WriteGGUF(filepath.Join(dir, "m.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	return dir, fmt.Sprintf(`node: {name: n, state_dir: %[1]s/state}
api: {local: "127.0.0.1:8086"}
mesh: {open: true}
models_dir: %[1]s
models:
  - {name: boxed, path: m.gguf, gpus: [0, 1], llamacpp: {runner: docker, image: cuda, prompt_cache: 8GiB}}
  - {name: plain, path: m.gguf, llamacpp: {runner: native, binary: llama-server}}
  - {name: far, llamacpp: {runner: external, url: "http://127.0.0.1:9"}}
`, dir)
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("viiwork.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func find(checks []setup.Check, id string) setup.Check {
	i := slices.IndexFunc(checks, func(c setup.Check) bool { return c.ID == id })
	if i < 0 {
		return setup.Check{ID: id, State: "missing"}
	}
	return checks[i]
}

func TestAHealthyMachineHasNoComplaint(t *testing.T) {
	_, text := machine(t)
	checks := setup.Doctor(t.Context(), parse(t, text), healthy())
	for _, c := range checks {
		if c.State != setup.OK && c.ID != "node" {
			t.Errorf("%+v", c)
		}
	}
	if find(checks, "node").State != setup.Skip || !setup.Healthy(checks) {
		t.Errorf("a node that is not running was held against the machine: %+v", find(checks, "node"))
	}
}

func TestAProgramThatIsNoEngineIsFound(t *testing.T) {
	_, text := machine(t)
	env := healthy()
	env.Program = nil // the real world's
	got := find(setup.Doctor(t.Context(), parse(t, strings.ReplaceAll(text, "llama-server", "/bin/ls")), env), "binary:/bin/ls")
	if got.State != setup.Fail || !strings.Contains(got.Cause, "not llama-server") {
		t.Errorf("got %+v", got)
	}
}

func TestEmbeddingsWithoutAPoolingAreFoundAtTheirArgs(t *testing.T) {
	_, text := machine(t)
	text += "  - {name: embeds, path: m.gguf, args: [--embeddings], llamacpp: {runner: native}}\n"
	checks := setup.Doctor(t.Context(), parse(t, text), healthy())
	got := find(checks, "model:embeds")
	if got.State != setup.Fail || !strings.Contains(got.Cause, "viiwork.yaml:9:") || !strings.Contains(got.Cause, "models[3].args: embeddings need a pooling") {
		t.Errorf("got %+v", got)
	}
}

// TestEachFaultIsFoundWithCauseAndFix breaks one thing at a time.
func TestEachFaultIsFoundWithCauseAndFix(t *testing.T) {
	no := errors.New("no such thing: make one")
	for name, c := range map[string]struct {
		broken func(p *setup.Probe, dir string)
		id     string
		state  setup.State
		cause  string
	}{
		"image":   {func(p *setup.Probe, _ string) { p.Image = func(context.Context, string) error { return no } }, "image:cuda", setup.Fail, "no such thing"},
		"program": {func(p *setup.Probe, _ string) { p.Program = func(context.Context, string) error { return no } }, "binary:llama-server", setup.Fail, "no such thing"},
		"no cards": {func(p *setup.Probe, _ string) {
			p.Cards = func(context.Context) ([]gpu.Card, []gpu.Fault) { return nil, nil }
		}, "gpus", setup.Fail, "no driver"},
		"driver": {func(p *setup.Probe, _ string) {
			p.Cards = func(context.Context) ([]gpu.Card, []gpu.Fault) {
				return nil, []gpu.Fault{{Text: "driver mismatch", Fix: "reboot"}}
			}
		}, "gpus", setup.Fail, "driver mismatch"},
		"driver alone": {func(p *setup.Probe, _ string) {
			p.Cards = func(context.Context) ([]gpu.Card, []gpu.Fault) {
				return nil, []gpu.Fault{{ID: "driver_mismatch", Text: "driver mismatch", Fix: "reboot"}}
			}
		}, "gpu:driver_mismatch", setup.Fail, "the driver says so"},
		"another card lost": {func(p *setup.Probe, _ string) {
			cards, _ := p.Cards(context.Background())
			p.Cards = func(context.Context) ([]gpu.Card, []gpu.Fault) {
				return cards, []gpu.Fault{{ID: "gpu_lost", PCI: "0000:02:00.0", Text: "lost", Fix: "reboot"}}
			}
		}, "gpu:gpu_lost", setup.Warn, "0000:02:00.0"},
		"part of the processor": {func(p *setup.Probe, _ string) {
			p.Cards = func(context.Context) ([]gpu.Card, []gpu.Fault) {
				return []gpu.Card{{Index: 0, Accel: engine.AccelROCm}, {Index: 1, Accel: engine.AccelROCm, Name: "AMD renoir", Integrated: true}}, nil
			}
		}, "gpu:integrated", setup.Warn, "AMD renoir"},
		"no toolkit": {func(p *setup.Probe, _ string) {
			p.HandOn = func(context.Context, string) error {
				return errors.New(`could not select device driver "" with capabilities: [[gpu]]`)
			}
		}, "gpu:toolkit_missing", setup.Fail, "[[gpu]]"},
		"cards not handed on": {func(p *setup.Probe, _ string) { p.HandOn = func(context.Context, string) error { return no } }, "gpu:containers", setup.Fail, "no such thing"},
		"port taken":          {func(p *setup.Probe, _ string) { p.Listen = func(string) error { return syscall.EADDRINUSE } }, "port:127.0.0.1:8086", setup.Fail, "another program"},
		"no address":          {func(p *setup.Probe, _ string) { p.Listen = func(string) error { return syscall.EADDRNOTAVAIL } }, "port:127.0.0.1:8086", setup.Fail, "assign"},
		"disk full":           {func(p *setup.Probe, _ string) { p.Free = func(string) (int64, error) { return 5 << 20, nil } }, "state_dir", setup.Warn, "5.0 MiB left"},
		"little memory":       {func(p *setup.Probe, _ string) { p.Memory = func() (int64, error) { return 8 * gib, nil } }, "memory", setup.Warn, "memory 8.0 GiB"},
		"clock unset":         {func(p *setup.Probe, _ string) { p.Now = func() time.Time { return time.Unix(0, 0) } }, "clock", setup.Fail, "2026-01-01"},
		"model missing":       {func(_ *setup.Probe, dir string) { os.Remove(filepath.Join(dir, "m.gguf")) }, "model:boxed", setup.Fail, "viiwork.yaml:6:"},
		"model cut off":       {func(_ *setup.Probe, dir string) { os.Truncate(filepath.Join(dir, "m.gguf"), 1_000_000) }, "model:plain", setup.Fail, "truncated"},
		"state a file":        {func(_ *setup.Probe, dir string) { os.WriteFile(filepath.Join(dir, "state"), nil, 0o600) }, "state_dir", setup.Fail, "is a file"},
		"config faults": {func(p *setup.Probe, _ string) {
			p.ConfigErr = config.Faults{{File: "viiwork.yaml", Line: 2, Column: 1, Message: "what?"}}
		}, "config", setup.Fail, "viiwork.yaml:2:1"},
		"config missing": {func(p *setup.Probe, _ string) { p.ConfigErr = no }, "config", setup.Fail, "no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, text := machine(t)
			cfg := parse(t, text)
			env := healthy()
			c.broken(&env, dir)
			checks := setup.Doctor(t.Context(), cfg, env)
			got := find(checks, c.id)
			if got.State != c.state || !strings.Contains(got.Cause, c.cause) || got.Text == "" || got.Fix == "" {
				t.Errorf("got %+v, want %s and the cause %q", got, c.state, c.cause)
			}
			if setup.Healthy(checks) != (c.state == setup.Warn) {
				t.Errorf("healthy is %v with a %s", setup.Healthy(checks), c.state)
			}
		})
	}
}

// TestWithoutConfigurationTheDoctorStillSpeaks: it says what is missing and skips what depends on it.
func TestWithoutConfigurationTheDoctorStillSpeaks(t *testing.T) {
	env := healthy()
	env.ConfigErr = errors.New("looked everywhere: write one")
	checks := setup.Doctor(t.Context(), nil, env)
	if got := find(checks, "config"); got.State != setup.Fail || got.Fix == "" {
		t.Errorf("got %+v", got)
	}
	if find(checks, "clock").State != setup.OK || find(checks, "rest").State != setup.Skip {
		t.Errorf("got %+v", checks)
	}
}

// TestPortOfTheRunningNodeIsNoFault, and a port the running node does not hold is worth a word.
func TestPortOfTheRunningNodeIsNoFault(t *testing.T) {
	_, text := machine(t)
	cfg := parse(t, text)
	env := healthy()
	env.Node = func(context.Context) error { return nil }
	env.Listen = func(string) error { return syscall.EADDRINUSE }
	checks := setup.Doctor(t.Context(), cfg, env)
	if got := find(checks, "port:127.0.0.1:8086"); got.State != setup.OK || find(checks, "node").State != setup.OK {
		t.Errorf("got %+v, %+v", got, find(checks, "node"))
	}
	env.Listen = func(string) error { return nil }
	if got := find(setup.Doctor(t.Context(), cfg, env), "port:127.0.0.1:8086"); got.State != setup.Warn {
		t.Errorf("got %+v", got)
	}
}

// TestPortsAreThoseServeOpens: local alone on a tailnet; host and local on a LAN unless one covers the other.
func TestPortsAreThoseServeOpens(t *testing.T) {
	for text, want := range map[string][]string{
		"mesh: {open: true}": {"127.0.0.1:8086"},
		"mesh: {open: true, network: lan}\napi: {host: \"\"}":                                          {":8086"},
		"mesh: {open: true, network: lan}\napi: {host: 0.0.0.0}":                                       {"0.0.0.0:8086"},
		"mesh: {open: true, network: lan}\napi: {host: 0.0.0.0, local: \"localhost:8086\"}":            {"0.0.0.0:8086"},
		"mesh: {open: true, network: lan}\napi: {host: 127.0.0.2}":                                     {"127.0.0.2:8086", "127.0.0.1:8086"},
		"mesh: {open: true, network: lan}\napi: {host: 127.0.0.1}":                                     {"127.0.0.1:8086"},
		"mesh: {open: true, network: lan}\napi: {host: 127.0.0.2, local: \"\"}":                        {"127.0.0.2:8086"},
		"mesh: {open: true, network: lan}\napi: {host: \"\", port: 9000, local: \"127.0.0.1:8086\"}\n": {":9000", "127.0.0.1:8086"},
	} {
		var asked []string
		env := healthy()
		env.Listen = func(addr string) error { asked = append(asked, addr); return nil }
		setup.Doctor(t.Context(), parse(t, fmt.Sprintf("node: {state_dir: %q}\n%s\n", t.TempDir(), text)), env)
		if !slices.Equal(asked, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", text, asked, want)
		}
	}
}

// TestTheDoctorChangesNothing: no file made or left, and a port it looked at is free again.
func TestTheDoctorChangesNothing(t *testing.T) {
	dir, text := machine(t)
	host := "127.0.0.1"
	if runtime.GOOS == "linux" { // where all of 127.0.0.0/8 is this machine's: at this one nobody else takes the port meanwhile
		host = "127.0.0.88"
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	env := healthy()
	env.Listen, env.Free, env.Memory = nil, nil, nil // the real ones
	checks := setup.Doctor(t.Context(), parse(t, strings.Replace(text, "127.0.0.1:8086", addr, 1)), env)
	if got := find(checks, "port:"+addr); got.State != setup.OK {
		t.Errorf("got %+v", got)
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Errorf("the port is not free afterwards: %v", err)
	} else {
		l.Close()
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if got := find(checks, "memory"); got.State == setup.Skip {
		t.Errorf("this machine's memory could not be read: %+v", got)
	}
}

// TestJSONIsStable: scripts read these names.
func TestJSONIsStable(t *testing.T) {
	text, err := json.Marshal(setup.Check{ID: "clock", State: setup.Warn, Text: "a", Cause: "b", Fix: "c"})
	if want := `{"id":"clock","state":"warn","text":"a","cause":"b","fix":"c"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
