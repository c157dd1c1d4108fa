package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/setup"
	viiwork "viiwork/appliance/viiwork"
	"viiwork/engine/enginetest"
)

// machinesSeen has the hardware of one machine in each folder.
const machinesSeen = "../../engine/gpu/testdata/hosts"

// answersFor are the answers that each machine goes through; what follows a dash in a name is of the answers.
var answersFor = map[string]string{
	"gfx906x4":  "models: [{file: Qwen3.8-27B-UD-Q4_K_XL.gguf}, {file: embeds-F16.gguf}]\nmesh: {start: secured}",
	"rtx3090x2": "models: [{file: moe/moe-30B-A3B-Q4_K_M.gguf, name: coder, gpus: [1], parallel: 2}, {file: small-1b-Q8_0.gguf}]\nmesh: {start: secured, network: lan}\napi: {host: 192.168.1.5}",
	"gb10":      "models: [{file: moe/moe-30B-A3B-Q4_K_M.gguf, context: 65536}]\nmesh: {start: open, network: lan, mdns: no, seeds: [cellar.local]}",
	"m3ultra":   "models: [{file: moe/moe-30B-A3B-Q4_K_M.gguf, parallel: 8}]\nmesh: {start: secured}",
	// What a machine cannot hold is refused at its place, with what would do.
	"m3ultra-huge":   "models: [{file: huge-670B-Q4_0.gguf, context: 32768}]\nmesh: {start: secured}",
	"rtx3090x2-wish": "models: [{file: moe/moe-30B-A3B-Q4_K_M.gguf, gpus: [0], parallel: 4, context: 65536}, {file: small-1b-Q8_0.gguf, gpus: [0, 2]}]\nmesh: {start: secured}",
	"wsl":            "models: [{file: small-1b-Q8_0.gguf}]\nmesh: {start: secured}\nservice: none",
	"nogpu":          "models: [{file: small-1b-Q8_0.gguf, name: org/small}]\nmesh: {start: secured}\nservice: compose",
	"twovendors":     "models: [{file: small-1b-Q8_0.gguf}, {file: moe/moe-30B-A3B-Q4_K_M.gguf}]\nmesh: {start: secured}",
	"a100x32":        "models: []\nmesh: {start: secured}",
}

// modelShelf is a folder with one model of each kind and size.
func modelShelf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, s := range map[string]enginetest.Shape{
		"Qwen3.8-27B-UD-Q4_K_XL.gguf": {Arch: "llama", Layers: 64, Weights: 15 << 30, Width: 5120, Context: 262144, KVHeads: 8},
		"moe/moe-30B-A3B-Q4_K_M.gguf": {Arch: "llama", Layers: 48, Weights: 17 << 30, Width: 2048, Context: 131072, KVHeads: 4},
		"small-1b-Q8_0.gguf":          {Arch: "llama", Layers: 16, Weights: 1 << 30, Width: 2048, Context: 32768, KVHeads: 8},
		"huge-670B-Q4_0.gguf":         {Arch: "llama", Layers: 61, Weights: 398 << 30, Width: 7168, Context: 163840, KVHeads: 8},
		"embeds-F16.gguf":             {Arch: "bert", Layers: 24, Weights: 1 << 29, Width: 1024, Context: 8192, KVHeads: 16, Pooling: 1},
	} {
		if err := s.Write(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestEachKindOfMachineGetsItsFiles: what 'init --answers --dry-run --host-root' shows of each machine, held against a file.
func TestEachKindOfMachineGetsItsFiles(t *testing.T) {
	dir := modelShelf(t)
	for name, text := range answersFor {
		t.Run(name, func(t *testing.T) {
			machine, _, _ := strings.Cut(name, "-")
			got := dryRun(t, dir, machine, text)
			path := filepath.Join("testdata", "init", name+".txt")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("not as in %s (UPDATE_GOLDEN=1 writes it anew):\n%s", path, setup.Diff(path, string(want), got))
			}
		})
	}
	entries, err := os.ReadDir(machinesSeen)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && answersFor[e.Name()] == "" {
			t.Errorf("the machine %s goes through no answers", e.Name())
		}
	}
}

// dryRun runs the command, and takes out of what it says where this test keeps its files.
func dryRun(t *testing.T, models, machine, text string) string {
	t.Helper()
	answers := filepath.Join(t.TempDir(), "answers.yaml")
	text = fmt.Sprintf("models_dir: %q\n%s\nnode: {name: attic}\n", models, text)
	if err := os.WriteFile(answers, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	viiwork.Run(t.Context(), []string{"init", "--answers", answers, "--dry-run", "--host-root", filepath.Join(machinesSeen, machine)},
		viiwork.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	got := strings.NewReplacer(models, "/srv/models", answers, "answers.yaml").Replace(out.String())
	if me, err := user.Current(); err == nil && machine == "m3ultra" { // there files are a user's own
		got = strings.ReplaceAll(got, me.HomeDir, "/Users/ann")
	}
	return got
}
