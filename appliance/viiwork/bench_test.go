package main_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/bench"
	"viiwork/appliance/config"
	viiwork "viiwork/appliance/viiwork"
	"viiwork/engine/enginetest"
)

// meshOfThree runs three nodes, each with an engine of two slots, and returns the first one's configuration file once each
// of them knows all.
func meshOfThree(t *testing.T) (file string, urls []string) {
	t.Helper()
	return meshOf(t, 3, func() string {
		fake := enginetest.New(enginetest.Options{Slots: 2, Model: "m", Context: 1 << 14, DecodeTPS: 2000, PromptCache: 8})
		t.Cleanup(fake.Close)
		return fmt.Sprintf(`{name: m, context: 16384, parallel: 2, llamacpp: {runner: external, url: %q}}`, fake.URL())
	})
}

// meshOf runs n nodes with a model each.
func meshOf(t *testing.T, n int, model func() string) (file string, urls []string) {
	t.Helper()
	free := newPorts()
	seeds := "[]"
	for i := range n {
		port, err := free.free()
		if err != nil {
			t.Fatal(err)
		}
		dir, host := t.TempDir(), fmt.Sprintf("127.0.0.%d", 20+i)
		text := fmt.Sprintf(`node: {name: n%d, state_dir: %q, drain: 5s}
api: {host: %s, port: %d, local: ""}
mesh: {network: lan, open: true, bind_port: %d, lan: {mdns: false}, seeds: %s}
models: [%s]
`, i, filepath.Join(dir, "state"), host, port, port+1, seeds, model())
		path := filepath.Join(dir, "viiwork.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			file, seeds = path, fmt.Sprintf(`["%s:%d"]`, host, port+1)
		}
		urls = append(urls, fmt.Sprintf("http://%s:%d", host, port))
		serveHere(t, path)
	}
	for _, url := range urls {
		waitForHosts(t, url, n)
	}
	return file, urls
}

// serveHere runs a node in this process until the test ends, and its engines with it.
func serveHere(t *testing.T, path string) {
	t.Helper()
	cfg, err := config.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	node, err := appliance.New(cfg, appliance.Options{Version: "test", StopEngines: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
}

// waitForHosts waits until the node knows so many ready hosts of the one model.
func waitForHosts(t *testing.T, url string, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url + "/v1/models")
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Count(string(text), `"state":"ready","slots"`) >= want+1 { // the model's own and each host's
			return
		}
	}
	t.Fatalf("%s never knew %d hosts", url, want)
}

// TestAMeshIsMeasured: agents at three nodes that were found without naming one, each turn by any of them, with and without
// headers. Conversations that go home find what they had; by chance one turn in three would.
func TestAMeshIsMeasured(t *testing.T) {
	file, urls := meshOfThree(t)
	for _, headers := range bench.Headers() {
		rows := filepath.Join(t.TempDir(), "turns.csv")
		var out, said bytes.Buffer
		code := viiwork.Run(t.Context(), []string{"--config", file, "bench", "swarm", "--sessions", "2", "--turns", "20", "--think", "0.003", "--scale", "0.2", "--headers", headers,
			"--csv", rows, "--json"}, viiwork.Streams{In: strings.NewReader(""), Out: &out, Err: &said})
		var s bench.Summary
		if err := json.Unmarshal(out.Bytes(), &s); code != 0 || err != nil {
			t.Fatalf("exit %d, %v: %s", code, err, said.String())
		}
		t.Logf("headers %s: %+v", headers, s)
		if s.Turns != 40 || s.Failed != 0 || len(s.Entries) != 3 || len(s.Nodes) == 0 || s.Hit80 < 0.6 {
			t.Errorf("headers %s: %s", headers, out.String())
		}
		entries := map[string]int{}
		for _, row := range readCSV(t, rows)[1:] {
			entries[row[5]]++
			if named, _ := strconv.ParseBool(row[4]); (row[9] == "X-Session-Id") != named {
				t.Errorf("headers %s: a key of %q", headers, row[9])
			}
		}
		for _, url := range urls {
			if entries[url] == 0 {
				t.Errorf("no turn came in by %s: %v", url, entries)
			}
		}
	}
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
