package native_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
	"viiwork/engine/native"
)

func TestNoSecretReachesTheEngine(t *testing.T) {
	for name, value := range map[string]string{
		"VIIWORK_MESH_SECRET": "s1", "TS_AUTHKEY": "s2", "MY_OWN_SECRET": "s3", "AWS_SECRET_ACCESS_KEY": "s4",
		"CUDA_VISIBLE_DEVICES": "9", "HIP_VISIBLE_DEVICES": "9", "GGML_VK_VISIBLE_DEVICES": "9", "LLAMA_ARG_HOST": "0.0.0.0",
		"LANG": "C.UTF-8", "HSA_OVERRIDE_GFX_VERSION": "9.0.6",
	} {
		t.Setenv(name, value)
	}
	s := spec(script(t, "env; pwd"))
	s.Model.Accel, s.GPUs = engine.AccelCUDA, []int{1, 3}
	s.Model.Env = map[string]string{"OWNER": "yes"}
	state := t.TempDir()
	p := start(t, native.New(native.Config{StateDir: state}), s)
	wait(t, p)
	log := "\n" + logOf(t, p, -1, false)
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=1,3", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "OWNER=yes", "LANG=C.UTF-8",
		"HSA_OVERRIDE_GFX_VERSION=9.0.6", filepath.Join(state, "engines")} {
		if !strings.Contains(log, "\n"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, banned := range []string{"VIIWORK_", "TS_AUTHKEY", "SECRET", "HIP_VISIBLE", "GGML_VK", "LLAMA_ARG", "=9\n"} {
		if strings.Contains(log, banned) {
			t.Errorf("%s reached the engine", banned)
		}
	}
}

func TestMissingProgramIsToldWithTheWayOut(t *testing.T) {
	r := native.New(native.Config{StateDir: t.TempDir()})
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for binary, want := range map[string]string{
		"no-such-llama-server": "is not on PATH: install llama.cpp",
		"/no/such/server":      "set llamacpp.binary",
		plain:                  "set llamacpp.binary",
	} {
		_, startErr := r.Start(t.Context(), spec(binary))
		_, probeErr := r.Probe(t.Context(), engine.Model{Binary: binary}, "--help")
		for _, err := range []error{startErr, probeErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", binary, err)
			}
		}
	}
}

func TestProbeIsBoundedInTimeAndSize(t *testing.T) {
	r := native.New(native.Config{StateDir: t.TempDir()})
	out, err := r.Probe(t.Context(), engine.Model{Binary: script(t, "echo out $1; echo err >&2")}, "--help")
	if err != nil || out != "out --help\nerr\n" {
		t.Errorf("both streams: %q, %v", out, err)
	}
	out, err = r.Probe(t.Context(), engine.Model{Binary: script(t, "head -c 3000000 /dev/zero; exit 2")})
	if err == nil || len(out) != 1<<20 {
		t.Errorf("%d bytes of a flood, %v", len(out), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Probe(ctx, engine.Model{Binary: script(t, "sleep 600 & wait")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program that does not end: %v", err)
	}
}

func TestEachStartGetsAnotherLoopbackPort(t *testing.T) {
	r := native.New(native.Config{StateDir: t.TempDir()})
	program := script(t, `echo "$@"; exec sleep 600`)
	one, two := spec(program), spec(program)
	two.Backend = "org/m#1"
	a, b := start(t, r, one), start(t, r, two)
	if a.Record().URL == b.Record().URL || !strings.HasPrefix(a.Record().URL, "http://127.0.0.1:") {
		t.Errorf("%s and %s", a.Record().URL, b.Record().URL)
	}
	port := strings.TrimPrefix(a.Record().URL, "http://127.0.0.1:")
	said(t, a, "--host 127.0.0.1 --port "+port)
}
