package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/config"
)

func TestDefaultsAreThePublishedSample(t *testing.T) {
	sample, err := config.Load("testdata/sample.yaml", secured)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := config.Parse("viiwork.yaml", []byte("node: {name: attic}\n"), secured)
	if err != nil {
		t.Fatal(err)
	}
	if models, restart := config.Changes(bare, sample); len(restart) > 0 || !models {
		t.Errorf("sections that differ from their defaults: %v (models differ: %v)", restart, models)
	}
	want := config.Model{
		Name: "Qwen3.8-27B", Engine: "llamacpp", Path: "/srv/models/Qwen3.8-27B-UD-Q4_K_XL.gguf", GPUs: []int{0, 1, 2, 3},
		GPUsPerBackend: 2, Context: 49152, Parallel: 2, StartupTimeout: 10 * time.Minute, Args: []string{}, Env: map[string]string{},
		Llamacpp: config.Llamacpp{Runner: "docker", Image: "cuda", Binary: "llama-server", PromptCache: 8 << 30, SplitMode: "layer", SplitWeights: []float64{}},
	}
	if got := sample.Models[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("model is\n%+v, want\n%+v", got, want)
	}
	if sample.API.MaxBody != 64<<20 || sample.Node.Drain != 30*time.Second || !sample.Mesh.LAN.MDNS {
		t.Errorf("values of the sample were not read: %+v", sample.API)
	}
}

func TestExampleFileIsAccepted(t *testing.T) {
	c, err := config.Load("../../docs/viiwork.example.yaml", secured)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Models) != 3 || c.Models[2].Llamacpp.URL != "http://127.0.0.1:9000" || len(c.Warnings()) > 0 {
		t.Errorf("got %d models, warnings %v", len(c.Models), c.Warnings())
	}
	// The example has every key, so that it can be cut down to a file of one's own.
	text, _ := os.ReadFile("../../docs/viiwork.example.yaml")
	for _, key := range config.Keys() {
		if name := key[strings.LastIndex(key, ".")+1:]; !strings.Contains(string(text), name+":") {
			t.Errorf("the example lacks %s", key)
		}
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(config.Keys(), "models") {
		if !strings.Contains(string(text), "| `"+key+"` |") {
			t.Errorf("docs/config.md has no line for %s", key)
		}
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		key := strings.Split(line, "`")[1]
		if key != "models" && !slices.Contains(config.Keys(), key) {
			t.Errorf("docs/config.md describes %s, which is no key", key)
		}
	}
}

func TestEmptyFileIsAnEntryNode(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "models:\n"} {
		c, err := config.Parse("viiwork.yaml", []byte(text), secured)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if len(c.Models) != 0 || c.API.Port != 8086 || c.Node.Name == "" || c.Mesh.Tailnet.Hostname != "viiwork-"+c.Node.Name {
			t.Errorf("%q: got %+v", text, c.Node)
		}
	}
}

func TestNodeNameComesFromTheHostName(t *testing.T) {
	for host, want := range map[string]string{
		"Attic.example.org":     "attic",
		"gpu_box":               "gpu-box",
		"":                      "node",
		"...":                   "node",
		"Ünit-7":                "nit-7",
		strings.Repeat("a", 40): strings.Repeat("a", 32),
	} {
		if got := config.NodeName(host); got != want {
			t.Errorf("%q became %q, want %q", host, got, want)
		}
	}
}

func TestDerivedDefaultsFollowTheirKeys(t *testing.T) {
	c := parse(t, `
api: {port: 9000}
models_dir: gguf
node: {name: box, state_dir: state}
models:
  - {name: a, path: a.gguf}
  - {name: b, path: /x/../b.gguf, gpus: [0]}
  - {name: c, llamacpp: {runner: external, url: "http://127.0.0.1:9000/"}}`)
	wd, _ := os.Getwd()
	if c.API.Local != "127.0.0.1:9000" || c.ModelsDir != filepath.Join(wd, "gguf") || c.Node.StateDir != filepath.Join(wd, "state") {
		t.Errorf("local %s, models %s, state %s", c.API.Local, c.ModelsDir, c.Node.StateDir)
	}
	a, b, ext := c.Models[0], c.Models[1], c.Models[2]
	if a.Path != filepath.Join(wd, "gguf", "a.gguf") || b.Path != "/b.gguf" || ext.Path != "" {
		t.Errorf("paths are %s, %s, %s", a.Path, b.Path, ext.Path)
	}
	if a.Llamacpp.Image != "cpu" || b.Llamacpp.Image != "cuda" {
		t.Errorf("images are %s, %s", a.Llamacpp.Image, b.Llamacpp.Image)
	}
	if a.Context != 8192 || ext.Context != 0 || a.Parallel != 1 {
		t.Errorf("contexts are %d, %d", a.Context, ext.Context)
	}
}

func TestCardsAreCutIntoGroups(t *testing.T) {
	for _, tc := range []struct {
		m    config.Model
		want string
	}{
		{config.Model{}, "[[]]"},
		{config.Model{GPUs: []int{4}}, "[[4]]"},
		{config.Model{GPUs: []int{3, 1, 0, 2}, GPUsPerBackend: 2}, "[[3 1] [0 2]]"},
		{config.Model{GPUs: []int{0, 1, 2}, GPUsPerBackend: 1}, "[[0] [1] [2]]"},
	} {
		if got := fmt.Sprint(tc.m.Backends()); got != tc.want {
			t.Errorf("%v by %d: got %s, want %s", tc.m.GPUs, tc.m.GPUsPerBackend, got, tc.want)
		}
	}
}
