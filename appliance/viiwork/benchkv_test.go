package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/bench"
	viiwork "viiwork/appliance/viiwork"
	"viiwork/engine/enginetest"
)

// TestMovesAreMeasured: conversations between two nodes that were found without naming one. What a move takes is by the nodes' own
// count, and of a cache that came nearly all is found by the engine.
func TestMovesAreMeasured(t *testing.T) {
	for name, program := range map[string]func(*testing.T) (path, args string){
		// So slow that a cache comes sooner than it is computed, whatever else the machine and its disk are busy with: what the
		// nodes have measured of one move decides about the next, and how long one may take is what computing would.
		"fake": func(t *testing.T) (string, string) { return enginetest.Program(t), `--fake-prefill-tps, "200"` },
		"real": func(t *testing.T) (string, string) { return enginetest.Real(t), `-t, "1"` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, args := program(t)
			weights := filepath.Join(t.TempDir(), "tiny.gguf")
			if err := enginetest.WriteGGUF(weights, enginetest.GGUFOptions{Layers: 12}); err != nil {
				t.Fatal(err)
			}
			file, urls := meshOf(t, 2, func() string {
				return fmt.Sprintf(`{name: m, path: %q, context: 16384, parallel: 2, args: [%s], llamacpp: {runner: native, binary: %q, prompt_cache: 64MiB}}`, weights, args, path)
			})
			rows := filepath.Join(t.TempDir(), "moves.csv")
			var out, said bytes.Buffer
			code := viiwork.Run(t.Context(), []string{"--config", file, "bench", "kv", "--tokens", "1000,2000", "--pairs", "1", "--pause", "3s", "--csv", rows, "--json"},
				viiwork.Streams{In: strings.NewReader(""), Out: &out, Err: &said})
			var r bench.KVReport
			if err := json.Unmarshal(out.Bytes(), &r); code != 0 || err != nil {
				t.Fatalf("exit %d, %v: %s", code, err, said.String())
			}
			t.Log(out.String())
			if len(r.Pairs) != 1 || len(r.Nodes) != 2 || r.Entry != urls[0] || !strings.Contains(said.String(), "1 pair of nodes with m, by "+urls[0]) {
				t.Fatalf("%s %s", out.String(), said.String())
			}
			for _, p := range r.Pairs {
				if len(p.Sizes) != 2 || p.Verdict == bench.NotKnown || p.Verdict == bench.Switched {
					t.Fatalf("%+v", p)
				}
				for _, s := range p.Sizes {
					if s.Error != "" || s.Tokens < s.Planned*8/10 || s.Cold <= 0 {
						t.Errorf("%+v", s)
					}
					i := s.There.Import
					if s.There.Route != "pull" || s.There.Class != "warm" || i == nil || !i.Proved || i.Bytes == 0 || s.There.Save == nil || s.There.Save.Bytes < i.Bytes/2 || i.Bytes < s.There.Save.Bytes/2 {
						t.Errorf("%s → %s: %+v, save %+v, import %+v", p.From, p.To, s.There, s.There.Save, i)
					}
				}
			}
			if got := readCSV(t, rows); len(got) != 1+2*2 || got[1][3] != "there" || got[2][3] != "back" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestColumnsThatNobodyToldAreLeftOut, and a size that failed says why in its row.
func TestColumnsThatNobodyToldAreLeftOut(t *testing.T) {
	moved := bench.KVMove{TTFT: 0.5, Prompt: 8000, Cached: 7900, Class: "warm", Route: "pull"}
	told := moved
	told.Save = &bench.KVSave{Saves: 1, MS: 120, Bytes: 5e8}
	told.Import = &bench.KVImport{Fetch: 400, Assemble: 60, Restore: 30, Bytes: 5e8, Path: "direct", Proved: true}
	size := bench.KVSize{Tokens: 8000, Cold: 12, Saved: 11.5, There: told, Back: moved}
	failed := bench.KVSize{Tokens: 32000, Error: "status 502"}
	r := bench.KVReport{Pairs: []bench.KVPair{
		{From: "attic", To: "cellar", Verdict: bench.PaysAll, Says: "moving pays (attic → cellar)", Sizes: []bench.KVSize{size, failed}},
		{From: "cellar", To: "attic", Verdict: bench.Switched, Says: "kv_share is off at attic (cellar → attic)"},
		{From: "cellar", To: "loft", Verdict: bench.NotKnown, Says: "nothing was measured"},
	}}
	want := `attic → cellar
TOKENS  COLD        MOVED  SAVED   BACK   CACHED       ROUTE  SAVE   FETCH  ASSEMBLE  RESTORE  MB     PATH    PROVED
8000    12.00s      0.50s  11.50s  0.50s  7900 (warm)  pull   120ms  400ms  60ms      30ms     500.0  direct  yes
32000   status 502  -      -       -      -            -      -      -      -         -        -      -       -
moving pays (attic → cellar)

kv_share is off at attic (cellar → attic)
`
	if got := viiwork.DrawKV(r, false).String(); got != want {
		t.Errorf("%s", got)
	}
	r.Pairs[0].Sizes[0].There = moved
	if got := viiwork.DrawKV(r, false).String(); strings.Contains(got, "FETCH") || strings.Contains(got, "SAVE ") || !strings.Contains(got, "7900 (warm)  pull\n") {
		t.Errorf("%s", got)
	}
}
