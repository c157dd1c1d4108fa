package replica_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/kvshare/replica"
	"viiwork/engine/enginetest"
)

// TestARealTurnAddsLittleMoreThanItsRows saves two turns in a real engine, the second with 581 tokens more.
func TestARealTurnAddsLittleMoreThanItsRows(t *testing.T) {
	enginetest.Real(t)
	for name, c := range map[string]struct {
		model  enginetest.GGUFOptions
		flags  []string
		layout string
		most   float64
	}{
		"one cache":   {flags: []string{"-kvu", "--no-cache-idle-slots"}, layout: replica.LayoutRows, most: 0.17},
		"split cache": {flags: []string{"-no-kvu"}, layout: replica.LayoutRows, most: 0.17},
		// Each turn leaves two checkpoints behind: the file grows by 0.31 of itself.
		"sliding window":     {model: enginetest.GGUFOptions{SlidingWindow: true}, flags: []string{"-kvu", "--no-cache-idle-slots"}, layout: replica.LayoutMixed, most: 0.31},
		"no flash attention": {flags: []string{"-kvu", "--no-cache-idle-slots", "-fa", "off"}, layout: replica.LayoutContent, most: 0.65},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			model := filepath.Join(dir, "tiny.gguf")
			if err := enginetest.WriteGGUF(model, c.model); err != nil {
				t.Fatal(err)
			}
			flags := append([]string{"-np", "2", "-c", "16384", "-fa", "on", "--slot-save-path", dir}, c.flags...)
			e := realSlot{t, enginetest.StartReal(t, model, flags...), dir}
			text := strings.Repeat("the quick brown fox and so on. ", 100)[:3000]
			text += e.complete(text)
			before := e.save(len(text) - 1) // the last token of an answer is not in the cache
			text += strings.Repeat("and then another line; ", 30)[:503]
			text += e.complete(text)
			after := e.save(len(text) - 1)
			if after.Layout != c.layout {
				t.Errorf("cut as %s, want %s", after.Layout, c.layout)
			}
			share := fresh(after, before)
			t.Logf("%d tokens after %d: %.3f of the file is new", after.Tokens, before.Tokens, share)
			if share > c.most {
				t.Errorf("%.3f of the state is new, want %.2f at most", share, c.most)
			}
		})
	}
}

// realSlot is slot 1 of a real engine with a tiny model, to which one byte is one token.
type realSlot struct {
	t        *testing.T
	url, dir string
}

func (e realSlot) complete(text string) string {
	e.t.Helper()
	const n = 78
	answer := e.post("/completion", map[string]any{"prompt": text, "n_predict": n, "id_slot": 1, "temperature": 0, "ignore_eos": true})
	var said struct{ Content string }
	if err := json.Unmarshal(answer, &said); err != nil || len(said.Content) != n {
		e.t.Fatalf("it said %d bytes, want %d: %v", len(said.Content), n, err)
	}
	return said.Content
}

func (e realSlot) save(tokens int) replica.Manifest {
	e.t.Helper()
	name := fmt.Sprintf("%d.state", tokens)
	e.post("/slots/1?action=save", map[string]any{"filename": name})
	state, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		e.t.Fatal(err)
	}
	m := cut(e.t, state)
	if m.Tokens != tokens {
		e.t.Errorf("its header has %d tokens, want %d", m.Tokens, tokens)
	}
	return m
}

// client opens a connection for each request: the engine closes one that was idle for five seconds, and cutting a state may take
// as long on a busy machine.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (e realSlot) post(path string, body any) []byte {
	e.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := client.Post(e.url+path, "application/json", bytes.NewReader(b))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
	}
	return answer
}
