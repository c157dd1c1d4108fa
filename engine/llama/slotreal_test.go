package llama_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
)

// told is what a real or fake engine answers to a prompt.
type told struct {
	Content string `json:"content"`
	Slot    int    `json:"id_slot"`
	Cached  int    `json:"tokens_cached"`
	Timings struct {
		Cached   int `json:"cache_n"`
		Computed int `json:"prompt_n"`
	} `json:"timings"`
}

// anew opens a connection for each request: the engine closes one that was idle for five seconds.
var anew = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// tell posts a body to /completion.
func tell(t *testing.T, target engine.Target, body string) told {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.URL+"/completion", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+target.Key)
	resp, err := anew.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	var said told
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(data, &said) != nil {
		t.Fatalf("asking the engine: %v, %s: %.300s", err, resp.Status, data)
	}
	return said
}

func turn(prompt string) string {
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 24, "temperature": 0, "ignore_eos": true, "cache_prompt": true})
	return string(body)
}

// TestAConversationGoesOnInAnotherRealEngine: with our own flags a slot of one process, saved and restored, is worth to
// another what it was to the first, down to the last letter of the next answer, with another number of slots too.
func TestAConversationGoesOnInAnotherRealEngine(t *testing.T) {
	program := enginetest.Real(t)
	for name, form := range map[string]enginetest.GGUFOptions{"dense": {}, "sliding window": {SlidingWindow: true}} {
		t.Run(name, func(t *testing.T) {
			const key = "real-key"
			d, b := llama.New(nil), realBuild(t, program)
			o := realOptions(t, key)
			o.Model.Context = 4096
			if err := enginetest.WriteGGUF(o.Model.Path, form); err != nil {
				t.Fatal(err)
			}
			start := func(slots int) engine.Target {
				o.Model.Parallel = slots
				args, err := d.Flags(b, o)
				if err != nil {
					t.Fatal(err)
				}
				if got := d.Traits(b, args, nil); got != (engine.KVTraits{TypeK: "f16", TypeV: "f16", Unified: true, Flash: true}) {
					t.Fatalf("traits are %+v", got)
				}
				return startReal(t, program, args, key)
			}
			home, away := start(3), start(2)
			prompt := strings.Repeat("What is held here goes elsewhere. ", 40)
			first := tell(t, home, turn(prompt))
			slots, err := d.Slots(t.Context(), home)
			if err != nil {
				t.Fatal(err)
			}
			held := slots[first.Slot]
			if held.Tokens != len(prompt)+24-1 || held.Task < 0 {
				t.Errorf("the slot is %+v; want a task, and all of the %d tokens but the answer's last", held, len(prompt)+24)
			}
			saved, err := d.Save(t.Context(), home, first.Slot, "a.kv")
			if err != nil || saved.Tokens != held.Tokens {
				t.Fatalf("saved %+v, %v", saved, err)
			}
			if info, err := os.Stat(filepath.Join(o.SlotDir, "a.kv")); err != nil || info.Size() != saved.Bytes {
				t.Errorf("the file: %v, %v; the engine says %d bytes", info.Size(), err, saved.Bytes)
			}
			if restored, err := d.Restore(t.Context(), away, 1, "a.kv"); err != nil || restored.Tokens != saved.Tokens || restored.Bytes != saved.Bytes {
				t.Fatalf("restored %+v, %v", restored, err)
			}
			next := prompt + first.Content + " And then? "
			stayed, moved := tell(t, home, turn(next)), tell(t, away, turn(next))
			if moved.Timings.Cached < saved.Tokens*9/10 {
				t.Errorf("%d of %d tokens were of use elsewhere", moved.Timings.Cached, saved.Tokens)
			}
			if moved.Content != stayed.Content {
				t.Errorf("it goes on with %q elsewhere and with %q at home", moved.Content, stayed.Content)
			}
			t.Logf("%d tokens, %d bytes, saved in %s; cached %d at home, %d elsewhere", saved.Tokens, saved.Bytes, saved.Took,
				stayed.Timings.Cached, moved.Timings.Cached)
		})
	}
}

func TestTheRealEngineRefusesWhatItCannotRead(t *testing.T) {
	program := enginetest.Real(t)
	const key = "real-key"
	d, b, o := llama.New(nil), realBuild(t, program), realOptions(t, key)
	args, err := d.Flags(b, o)
	if err != nil {
		t.Fatal(err)
	}
	target := startReal(t, program, args, key)
	tell(t, target, `{"prompt":"`+strings.Repeat("x", 200)+`","n_predict":1,"id_slot":0}`)
	if _, err := d.Save(t.Context(), target, 0, "a.kv"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(o.SlotDir, "a.kv"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"half.kv": whole[:len(whole)/2], "text.kv": []byte("not a slot")} {
		if err := os.WriteFile(filepath.Join(o.SlotDir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"half.kv", "text.kv", "missing.kv", "../a.kv"} {
		if f, err := d.Restore(t.Context(), target, 1, name); !errors.Is(err, engine.ErrSlotRefused) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if _, err := d.Save(t.Context(), target, 2, "empty.kv"); !errors.Is(err, engine.ErrSlotRefused) {
		t.Errorf("an empty slot: %v", err)
	}
}
