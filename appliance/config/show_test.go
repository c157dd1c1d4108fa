package config_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"viiwork/appliance/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestShowListsEveryKeyWithItsOrigin(t *testing.T) {
	text := `node: {name: attic, state_dir: /var/lib/viiwork, drain: 90m}
models_dir: /srv/models
models:
  - name: Qwen3.8-27B
    path: q.gguf
    gpus: [0, 1]
    args: [--temp, 0.6, --api-key, tail-of-args, --hf-token=abcdef, -x, "two words", "a, b"]
    env: {HF_TOKEN: abcdef, OMP_NUM_THREADS: 4, NOTE: "see https://me:abcdef@host/", OTHER: sk-abcdefghijkl}
    llamacpp: {prompt_cache: 1.5GiB, split_weights: [2.5]}
aliases: {default: Qwen3.8-27B}
access: {rules: [{who: me, key: abcdef, note: sk-abcdefghijkl}]}
mesh: {open: true, tailnet: {auth_key: tskey-auth-abcdef, control_url: "https://hs.example.org"}}
update: {source: "https://me:abcdef@mirror.example.org/x"}
`
	c, err := config.Parse("/etc/viiwork/viiwork.yaml", []byte(text),
		[]string{"VIIWORK_ROUTING_QUEUE_TIMEOUT=1m30s", "VIIWORK_API_HOSTS=a.example,b.example"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range c.Show() {
		fmt.Fprintf(&b, "%-36s %-44s %s\n", s.Key, s.Value, s.Origin)
	}
	for _, secret := range []string{"abcdef", "tail-of-args"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("a secret (%s) is shown", secret)
		}
	}
	golden(t, "testdata/show.golden", b.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test -update writes it anew):\n%s", path, got)
	}
}

// What is shown can be written into a file and means the same.
func TestShownSizesAndDurationsReadBack(t *testing.T) {
	for _, v := range []string{"0", "1", "1023", "8GiB", "1536MiB", "5GB", "3kB", "1TiB", "1234567"} {
		c := parse(t, "kv_share: {store: "+v+"}")
		shown := find(t, c, "kv_share.store")
		if again := parse(t, "kv_share: {store: "+shown+"}"); again.KVShare.Store != c.KVShare.Store {
			t.Errorf("%s is shown as %s, which is %d", v, shown, again.KVShare.Store)
		}
	}
	for v, want := range map[string]string{"0": "0s", "90s": "1m30s", "10m": "10m", "120m": "2h", "3601s": "1h0m1s", "1.5s": "1.5s"} {
		if got := find(t, parse(t, "node: {drain: "+v+"}"), "node.drain"); got != want {
			t.Errorf("%s is shown as %s, want %s", v, got, want)
		}
	}
}

func find(t *testing.T, c *config.Config, key string) string {
	t.Helper()
	for _, s := range c.Show() {
		if s.Key == key {
			return s.Value
		}
	}
	t.Fatalf("Show lacks %s", key)
	return ""
}
