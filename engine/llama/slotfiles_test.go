package llama_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
)

func TestSaveAndRestoreTellWhatTheEngineDid(t *testing.T) {
	dir := t.TempDir()
	s := enginetest.New(enginetest.Options{Slots: 2, Key: "k", SaveDir: dir, StateBytes: 4096})
	t.Cleanup(s.Close)
	d, target := llama.New(nil), engine.Target{URL: s.URL(), Key: "k"}
	tell(t, target, `{"prompt":"`+strings.Repeat("x", 500)+`","n_predict":1,"id_slot":0}`)

	saved, err := d.Save(t.Context(), target, 0, "a.kv")
	info, serr := os.Stat(filepath.Join(dir, "a.kv"))
	if err != nil || serr != nil || saved.Tokens != 500 || saved.Bytes != info.Size() || saved.Took <= 0 {
		t.Fatalf("saved %+v, %v, %v; want 500 tokens in a file of %d bytes", saved, err, serr, info.Size())
	}
	restored, err := d.Restore(t.Context(), target, 1, "a.kv")
	if err != nil || restored.Tokens != 500 || restored.Bytes != saved.Bytes || restored.Took <= 0 {
		t.Errorf("restored %+v, %v", restored, err)
	}
}

func TestWhatAnEngineWillNotSaveIsToldApart(t *testing.T) {
	dir := t.TempDir()
	s := enginetest.New(enginetest.Options{Slots: 2, Key: "k", SaveDir: dir})
	none := enginetest.New(enginetest.Options{Slots: 2, Key: "k"})
	foreign := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(func() { s.Close(); none.Close(); foreign.Close() })
	d, target := llama.New(nil), engine.Target{URL: s.URL(), Key: "k"}
	ctx := t.Context()
	for what, c := range map[string]struct {
		target engine.Target
		want   error
		ask    func(context.Context, engine.Target, int, string) (engine.SlotFile, error)
	}{
		"an empty slot":          {target, engine.ErrSlotRefused, d.Save},
		"a missing file":         {target, engine.ErrSlotRefused, d.Restore},
		"no folder, save":        {engine.Target{URL: none.URL(), Key: "k"}, engine.ErrNoSlotFiles, d.Save},
		"no folder, restore":     {engine.Target{URL: none.URL(), Key: "k"}, engine.ErrNoSlotFiles, d.Restore},
		"a server of other make": {engine.Target{URL: foreign.URL}, engine.ErrNoSlotFiles, d.Save},
	} {
		if f, err := c.ask(ctx, c.target, 0, "a.kv"); !errors.Is(err, c.want) || f != (engine.SlotFile{}) {
			t.Errorf("%s: %+v, %v; want %v", what, f, err, c.want)
		}
	}
	_, err := d.Save(ctx, engine.Target{URL: s.URL(), Key: "wrong"}, 0, "a.kv")
	if err == nil || errors.Is(err, engine.ErrSlotRefused) || errors.Is(err, engine.ErrNoSlotFiles) {
		t.Errorf("with a wrong key: %v, want an error of its own", err)
	}
}

// TestHostileAnswersToASaveAreNoSaves: what an engine says is read into bounded numbers or not at all.
func TestHostileAnswersToASaveAreNoSaves(t *testing.T) {
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `{"n_saved":0,"n_written":40}`, `{"n_saved":-4}`, `{"n_saved":1e99}`, `{"n_saved":"many"}`,
		`{"n_restored":12}`,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(body)) }))
		if f, err := llama.New(nil).Save(t.Context(), engine.Target{URL: srv.URL}, 0, "a.kv"); err == nil {
			t.Errorf("%s was taken for %+v", body, f)
		}
		srv.Close()
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`{"n_saved":5,"n_written":900,"timings":{"save_ms":1e30}}`))
	}))
	defer srv.Close()
	f, err := llama.New(nil).Save(t.Context(), engine.Target{URL: srv.URL}, 0, "a.kv")
	if err != nil || f.Tokens != 5 || f.Bytes != 900 || f.Took <= 0 || f.Took > time.Minute {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestTraitsAreWhatTheEngineWasStartedWith(t *testing.T) {
	d := llama.New(nil)
	b := build(t, "version: 0.7.0 (build 11669, commit Debian)", traitsHelp)
	usual := engine.KVTraits{TypeK: "f16", TypeV: "f16", Unified: true, Flash: true}
	with := func(change func(*engine.KVTraits)) engine.KVTraits {
		t := usual
		change(&t)
		return t
	}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want engine.KVTraits
	}{
		"nothing of the owner's": {nil, nil, usual},
		"cache types":            {[]string{"-ctk", "q8_0", "--cache-type-v=q4_0"}, nil, with(func(k *engine.KVTraits) { k.TypeK, k.TypeV = "q8_0", "q4_0" })},
		"the last one counts":    {[]string{"-ctk", "q8_0", "-ctk", "f16"}, nil, usual},
		"flash attention off":    {[]string{"--flash-attn", "off"}, nil, with(func(k *engine.KVTraits) { k.Flash = false })},
		"a variable":             {nil, map[string]string{"LLAMA_ARG_CACHE_TYPE_K": "q8_0"}, with(func(k *engine.KVTraits) { k.TypeK = "q8_0" })},
		"a flag before a variable": {[]string{"-ctk", "q4_0"}, map[string]string{"LLAMA_ARG_CACHE_TYPE_K": "q8_0", "LLAMA_ARG_FLASH_ATTN": "off"},
			with(func(k *engine.KVTraits) { k.TypeK = "q4_0" })},
		"a value that looks like a flag": {[]string{"--chat-template", "-ctk", "--temp", "0"}, nil, usual},
	} {
		args, err := d.Flags(b, engine.Options{Model: engine.Model{Name: "m", Path: "/m.gguf", Context: 64, Parallel: 2, Args: c.args, Env: c.env}, KeyFile: "/k", SlotDir: "/s"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := d.Traits(b, args, c.env); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWhatChangesTheModelsWorkIsInTheTraits(t *testing.T) {
	d := llama.New(nil)
	b := build(t, "version: 0.7.0 (build 11669, commit Debian)", traitsHelp)
	seen := map[string]string{"": "nothing"}
	for _, args := range [][]string{
		{"--rope-freq-scale", "0.5"}, {"--rope-freq-scale", "0.25"}, {"--lora", "/a.gguf"}, {"--override-kv", "a=int:1"}, {"--swa-full"},
	} {
		got := d.Traits(b, args, nil).Alters
		if other, twice := seen[got]; twice {
			t.Errorf("%q has the digest %q of %s", args, got, other)
		}
		seen[got] = strings.Join(args, " ")
	}
	if got := d.Traits(b, nil, map[string]string{"LLAMA_ARG_ROPE_FREQ_SCALE": "0.5"}).Alters; got == "" {
		t.Error("a variable that scales positions is not in the traits")
	}
	if got := d.Traits(b, []string{"--temp", "0.5", "-ctk", "q8_0"}, map[string]string{"HSA_X": "1"}).Alters; got != "" {
		t.Errorf("flags that change nothing have the digest %q", got)
	}
}

// TestBuildsWithoutAFlagForThePoolHaveOne: all did before there was a flag.
func TestBuildsWithoutAFlagForThePoolHaveOne(t *testing.T) {
	d := llama.New(nil)
	old := engine.Build{Flags: map[string]bool{"-fa": true}}
	if got := d.Traits(old, []string{"-fa"}, nil); !got.Unified || !got.Flash {
		t.Errorf("%+v, want one pool and flash attention", got)
	}
	later := engine.Build{Flags: map[string]bool{"-fa": true, "-kvu": true}}
	if got := d.Traits(later, []string{"-fa", "on"}, nil); got.Unified {
		t.Errorf("%+v: not asked for one pool, it has one for each slot", got)
	}
}

const traitsHelp = `----- common params -----

-m,    --model FNAME                    model path to load
--port PORT                             port to listen on
-np,   --parallel N                     number of server slots
-kvu,  --kv-unified                     use a single unified KV buffer
--kv-unified-per-slot N                 context limit of each slot
--api-key-file FNAME                    path to file containing API keys
--slot-save-path PATH                   path to save slot kv cache
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
--rope-freq-scale N                     RoPE frequency scaling factor
--lora FNAME                            path to LoRA adapter
--override-kv KEY=TYPE:VALUE            override model metadata by key
--swa-full                              use full-size SWA cache
--chat-template JINJA_TEMPLATE          set custom jinja chat template
--temp N                                temperature
`
