package docker_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"viiwork/engine"
	"viiwork/engine/docker"
)

func bind(host string, port int) []string {
	return []string{"--host", host, "--port", strconv.Itoa(port)}
}

func exampleSpec() engine.Spec {
	return engine.Spec{
		Backend:  "org/m#0",
		Model:    engine.Model{Name: "org/m", Image: "viiwork-engine:cpu", Env: map[string]string{"OWNER": "1"}},
		Args:     []string{"-m", "/models/m.gguf"},
		Bind:     bind,
		Env:      map[string]string{"GGML_X": "2"},
		KeyFile:  "/state/engines/m.key",
		SlotDir:  "/state/slots/m",
		ReadOnly: []string{"/models", "/models"},
		Hash:     "abc",
	}
}

// TestContainerIsAskedForAsWritten compares with golden files; UPDATE_GOLDEN=1 writes them anew.
func TestContainerIsAskedForAsWritten(t *testing.T) {
	cuda, rocm := exampleSpec(), exampleSpec()
	cuda.Model.Image, cuda.Model.Accel, cuda.GPUs = "ghcr.io/ggml-org/llama.cpp:server-cuda", engine.AccelCUDA, []int{2, 3}
	rocm.Model.Image, rocm.Model.Accel, rocm.GPUs = "example/rocm:1", engine.AccelROCm, []int{0, 2}
	imageEnv := []string{"PATH=/usr/bin", "LLAMA_ARG_HOST=0.0.0.0", "NVIDIA_VISIBLE_DEVICES=all", "HIP_VISIBLE_DEVICES=1", "OWNER=image"}
	for name, got := range map[string]docker.Container{
		"cpu":   docker.BackendContainer(exampleSpec(), imageEnv, nil),
		"cuda":  docker.BackendContainer(cuda, imageEnv, nil),
		"rocm":  docker.BackendContainer(rocm, imageEnv, []string{"44", "109"}),
		"probe": docker.ProbeContainer(engine.Model{Image: "viiwork-engine:cpu"}, []string{"--help"}, imageEnv),
	} {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".json")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.TrimSpace(want), text) {
			t.Errorf("%s differs from %s:\n%s", name, path, text)
		}
	}
}

// TestNoContainerHasMoreThanItNeeds holds for every kind of backend, whatever the golden files say.
func TestNoContainerHasMoreThanItNeeds(t *testing.T) {
	for _, accel := range []engine.Accel{engine.AccelNone, engine.AccelCUDA, engine.AccelROCm} {
		for _, gpus := range [][]int{nil, {0}} {
			spec := exampleSpec()
			spec.Model.Accel, spec.GPUs = accel, gpus
			c := docker.BackendContainer(spec, nil, []string{"44"})
			h := c.Host
			if h.Privileged || !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || len(h.CapAdd) > 0 ||
				!slices.Contains(h.SecurityOpt, "no-new-privileges") || h.AutoRemove || h.NetworkMode.IsHost() || h.PidMode.IsHost() {
				t.Errorf("%s %v: %+v", accel, gpus, h)
			}
			for _, bound := range h.PortBindings {
				if len(bound) != 1 || bound[0].HostIP != "127.0.0.1" {
					t.Errorf("%s: published to %v", accel, bound)
				}
			}
			for _, m := range h.Mounts {
				if m.ReadOnly == (m.Target == spec.SlotDir) || m.Source != m.Target {
					t.Errorf("%s: mount %+v", accel, m)
				}
			}
			if len(gpus) == 0 && len(h.Devices)+len(h.DeviceRequests) > 0 {
				t.Errorf("%s: a backend without cards is given %v %v", accel, h.Devices, h.DeviceRequests)
			}
		}
	}
}

func TestOwnersEnvWinsOverOurs(t *testing.T) {
	spec := exampleSpec()
	spec.Model.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "7"}
	env := docker.BackendContainer(spec, []string{"CUDA_VISIBLE_DEVICES=3"}, nil).Config.Env
	if !slices.Contains(env, "CUDA_VISIBLE_DEVICES=7") || slices.Contains(env, "CUDA_VISIBLE_DEVICES") {
		t.Errorf("env %q", env)
	}
}

func TestDeviceGroupsAreNumbers(t *testing.T) {
	dev := t.TempDir()
	if _, err := docker.CardGroups(dev); err == nil {
		t.Error("a machine without kfd has groups")
	}
	for _, path := range []string{"kfd", "dri/renderD128", "dri/card0"} {
		path = filepath.Join(dev, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	groups, err := docker.CardGroups(dev)
	if err != nil {
		t.Fatal(err)
	}
	// The files belong to the group of whoever runs the test; root's own needs no membership.
	var want []string
	if gid := os.Getgid(); gid != 0 {
		want = []string{strconv.Itoa(gid)}
	}
	if !slices.Equal(groups, want) {
		t.Errorf("groups %v, want %v", groups, want)
	}
}

func TestExitIsToldInWords(t *testing.T) {
	for _, c := range []struct {
		code    int
		oom     bool
		failure string
		want    engine.Exit
	}{
		{0, false, "", engine.Exit{Code: 0, Reason: "exit status 0"}},
		{1, false, "", engine.Exit{Code: 1, Reason: "exit status 1"}},
		{137, false, "", engine.Exit{Code: -1, Reason: "killed by SIGKILL"}},
		{137, true, "", engine.Exit{Code: -1, Reason: "out of memory"}},
		{139, false, "", engine.Exit{Code: -1, Reason: "killed by SIGSEGV"}},
		{255, false, "", engine.Exit{Code: 255, Reason: "exit status 255"}},
		{127, false, "no such file", engine.Exit{Code: 127, Reason: "no such file"}},
	} {
		if got := docker.ExitOf(c.code, c.oom, c.failure); got != c.want {
			t.Errorf("status %d: %+v, want %+v", c.code, got, c.want)
		}
	}
}
