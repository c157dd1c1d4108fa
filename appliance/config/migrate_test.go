package config_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/config"
)

const oldPairs = `server: {host: 0.0.0.0, port: 9101, mesh_port: 9100}
model:
  path: /models/Qwen3.8-27B-Q6_K.gguf
  context_size: 98304
  n_gpu_layers: -1
  parallel: 2
gpus:
  devices: [0, 1, 2, 3]
  base_port: 9001
  power_limit_watts: 180
  tensor_split: {enabled: true, mode: row, group_size: 2, weights: [0.6, 0.4], main_gpu: 1}
backend: {binary: llama-server, extra_args: ["--reasoning-format", "deepseek"], threads: 8}
health: {interval: 7s, timeout: 3s, max_failures: 3}
balancer: {latency_window: 30s, max_in_flight_per_gpu: 4}
peers:
  hosts: ["127.0.0.1:9102", "http://10.0.0.5:9101", "10.0.0.5:9102", box]
  gossip: {secret_env: MESH_SECRET, port: 1}
cost: {bidding_zone: FI}
pipelines: {translate: {steps: []}}
novelty: 1
`

func TestFileOfVersionOneIsRewritten(t *testing.T) {
	m, err := config.Migrate("old.yaml", []byte(oldPairs))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("viiwork.yaml", m.Text, []string{"MESH_SECRET=" + strings.Repeat("A", 43) + "="})
	if err != nil {
		t.Fatalf("%v in\n%s", err, m.Text)
	}
	got := c.Models[0]
	if got.Name != "Qwen3.8-27B-Q6_K" || got.Path != "/models/Qwen3.8-27B-Q6_K.gguf" || got.Context != 49152 || got.Parallel != 2 || got.GPUsPerBackend != 2 ||
		!slices.Equal(got.GPUs, []int{0, 1, 2, 3}) || got.Llamacpp.SplitMode != "row" || !slices.Equal(got.Llamacpp.SplitWeights, []float64{0.6, 0.4}) ||
		!slices.Equal(got.Args, []string{"--main-gpu", "1", "--reasoning-format", "deepseek"}) || got.Llamacpp.Runner != "native" || got.Llamacpp.Threads != 8 {
		t.Errorf("the model became %+v", got)
	}
	if c.API.Port != 9101 || c.API.Host != "" || c.Mesh.Network != "lan" || !slices.Equal(c.Mesh.Seeds, []string{"10.0.0.5", "box"}) || c.GPU.PowerLimitWatts != 180 || c.Health.Interval.Seconds() != 7 {
		t.Errorf("the rest became\n%s", m.Text)
	}
	var left []string
	for _, l := range m.Left {
		left = append(left, l.Key)
		if l.Why == "" || l.Line == 0 {
			t.Errorf("%+v is not explained", l)
		}
	}
	for _, key := range []string{"server.mesh_port", "model.context_size", "gpus.base_port", "health.timeout", "health.max_failures", "balancer", "peers.hosts", "peers.gossip.port", "cost", "pipelines", "novelty", "peers.gossip.secret_env"} {
		if !slices.Contains(left, key) {
			t.Errorf("%s is not mentioned: %v", key, left)
		}
	}
}

func TestShortFileOfVersionOneGetsItsDefaults(t *testing.T) {
	m, err := config.Migrate("old.yaml", []byte("model: {path: /m/a.gguf}\ngpus: {count: 2, offset: 4}\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("viiwork.yaml", m.Text, secured)
	if err != nil {
		t.Fatalf("%v in\n%s", err, m.Text)
	}
	if got := c.Models[0]; got.Context != 8192 || got.Parallel != 1 || !slices.Equal(got.GPUs, []int{4, 5}) || got.GPUsPerBackend != 1 || c.API.Port != 8086 {
		t.Errorf("became\n%s", m.Text)
	}
	if !slices.ContainsFunc(m.Left, func(l config.Left) bool { return l.Key == "server.port" && strings.Contains(l.Why, "8080") }) {
		t.Errorf("the other port is not mentioned: %v", m.Left)
	}
	if !slices.ContainsFunc(m.Left, func(l config.Left) bool { return l.Key == "mesh" && strings.Contains(l.Why, "VIIWORK_MESH_SECRET") }) {
		t.Errorf("that the mesh needs a secret is not mentioned: %v", m.Left)
	}
}

func TestOnlyAReadableFileOfVersionOneIsRewritten(t *testing.T) {
	for text, want := range map[string]string{
		"node: {name: a}\n": "one of viiwork 2 needs no rewriting",
		"model: [\n":        "old.yaml:",
		"server: {port: many}\nmodel: {path: a.gguf}\n": "old.yaml:1:16: server.port: version 1 would not have read this: want a whole number",
		"server: {}\n": "model.path: missing",
		"model: {path: a.gguf}\nhealth: {interval: 5}\n": "want a duration such as 5s",
		"model: {path: a.gguf}\ngpus: 3\n":               "",
	} {
		_, err := config.Migrate("old.yaml", []byte(text))
		if want == "" && err == nil {
			continue
		}
		if want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestMigratingNamesEachKeyOfVersionOne: the table has a row for every key, and no row for a key that is not handled.
func TestMigratingNamesEachKeyOfVersionOne(t *testing.T) {
	text, err := os.ReadFile("../../MIGRATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Key by key")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []string
	for line := range strings.Lines(table) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "|"), "|"); ok {
			for _, m := range regexp.MustCompile("`([a-z_.*]+)`").FindAllStringSubmatch(first, -1) {
				rows = append(rows, m[1])
			}
		}
	}
	for _, key := range config.V1Keys() {
		if !slices.Contains(rows, key) {
			t.Errorf("MIGRATING.md has no row for %s", key)
		}
	}
	for _, row := range rows {
		if !slices.Contains(config.V1Keys(), row) {
			t.Errorf("MIGRATING.md has a row for %s, which is not handled", row)
		}
	}
}

func FuzzMigrate(f *testing.F) {
	f.Add(oldPairs)
	f.Add("model: &a {path: *a}\n")
	f.Add("gpus: {count: 9999999999, offset: -1}\nmodel: {path: \"\\u0000\", parallel: 0, context_size: -5}\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := config.Migrate("old.yaml", []byte(text))
		if err != nil {
			return
		}
		if len(m.Left) > 200 || len(m.Text) > 4<<20 {
			t.Errorf("%d remarks, %d bytes", len(m.Left), len(m.Text))
		}
		_, err = config.Parse("viiwork.yaml", m.Text, secured)
		if err != nil && strings.Contains(err.Error(), "not YAML") {
			t.Errorf("%v in\n%s", err, m.Text)
		}
	})
}

// TestMigrateEndsOnAnchorsThatRepeatThemselves: of a few lines that grow without end nothing is rewritten.
func TestMigrateEndsOnAnchorsThatRepeatThemselves(t *testing.T) {
	doubling := "server: {port: 1}\nl0: &l0 {a: 1}\n"
	for i := 1; i < 40; i++ {
		doubling += fmt.Sprintf("l%d: &l%d {a: *l%d, b: *l%d}\n", i, i, i-1, i-1)
	}
	for name, text := range map[string]string{"itself": "server: {port: 1}\nx: &x {a: *x, b: *x, c: *x}\n", "doubling": doubling} {
		_, err := config.Migrate("old.yaml", []byte(text))
		var faults config.Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), "anchor") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
