package llama_test

import (
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/llama"
)

// Shapes of help lines over the builds, in the layout llama-server prints: names, a placeholder one space on, the
// description from column 40 or on the next line.
const (
	helpNow = `load_backend: loaded CPU backend
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads, see --threads-of-nobody
-c,    --ctx-size N                     size of the prompt context (default: 0)
-b,    --batch-size N                   logical maximum batch size
-ub,   --ubatch-size N                  physical maximum batch size
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
                                        use single unified KV buffer
                                        --not-a-flag-either
-dev,  --device <dev1,dev2,..>          comma-separated list of devices (none = don't
                                        offload)
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM
-sm,   --split-mode {none,layer,row,tensor}
                                        how to split the model across multiple GPUs
-ts,   --tensor-split N0,N1,N2,...      fraction of the model to offload to each GPU
--control-vector-layer-range START END
                                        layer range
-m,    --model FNAME                    model path to load
-a,    --alias STRING                   set model name aliases
-np,   --parallel N                     number of server slots
--kv-unified-per-slot N                 context limit per parallel slot
--cache-idle-slots, --no-cache-idle-slots
                                        save idle slots to the prompt cache
-cram, --cache-ram N                    set the maximum cache size in MiB
--slot-save-path PATH                   path to save slot kv cache
--metrics                               enable prometheus compatible metrics endpoint
--api-key-file FNAME                    path to file containing API keys
--cors-origins ORIGINS                  list of allowed origins for CORS
--cors-credentials, --no-cors-credentials
                                        whether to allow credentials for CORS
--ui,  --webui, --no-ui, --no-webui     whether to enable the Web UI
--offline                               Offline mode
--log-colors [on|off|auto]              Set colored logging
--warmup, --no-warmup                   whether to perform warmup
--embedding, --embeddings               restrict to embeddings
-lm,   --load-mode MODE                 model loading mode
                                        - mlock: force system to keep model in RAM
--host HOST                             ip address to listen
--port PORT                             port to listen (default: 9931)
--lora FNAME                            path to LoRA adapter
--temp, --temperature N                 temperature
-lzm,  --a-name-just-as-long-as-this... whose description has one space and no value
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max
--spec-ngram-size-n N                   the argument has been removed. use the respective
                                        --spec-ngram-*-size-n
--spec-draft-n-max N                    number of tokens to draft
`
	helpOld = `usage: llama-server [options]

  -m,    --model FNAME                  model path
  -a,    --alias STRING                 model name
  -c,    --ctx-size N                   context
  -np,   --parallel N                   slots
  -kvu,  --kv-unified                   unified buffer
  -fa,   --flash-attn                   enable Flash Attention
  -ngl,  --n-gpu-layers N               layers
  -t,    --threads N                    threads
  --log-colors                          Enable colored logging
  --no-webui                            Disable the Web UI
  --api-key-file FNAME                  keys
  --lora-scaled FNAME SCALE             path to LoRA adapter with scaling
  --port PORT                           port
`
	versionNow = "version: 0.7.0 (build 11669, commit Debian)\nbuilt with GNU 16.2.0 for Linux x86_64\n"
	versionOld = "ggml_cuda_init: found 1 CUDA devices:\nversion: 5432 (0abc123)\nbuilt with cc\n"
)

func build(t testing.TB, version, help string) engine.Build {
	t.Helper()
	b, err := llama.New(nil).Build(version, help)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBuildReadsVersionsOldAndNew(t *testing.T) {
	cases := []struct {
		text, version string
		number        int
	}{
		{versionNow, "0.7.0 (build 11669)", 11669},
		{versionOld, "5432 (0abc123)", 5432},
		{"version: 0.8.1 (build 12000)\n", "0.8.1 (build 12000)", 12000},
		{"version: custom \x1b[31mfork\n", "custom  [31mfork", 0},
		{"", "of unknown version", 0},
	}
	for _, c := range cases {
		b := build(t, c.text, helpNow)
		if b.Version != c.version || b.Number != c.number {
			t.Errorf("%q reads as %q, %d; want %q, %d", c.text, b.Version, b.Number, c.version, c.number)
		}
	}
}

func TestBuildKnowsEveryFlagAndItsValues(t *testing.T) {
	b := build(t, versionNow, helpNow)
	for flag, values := range map[string]int{
		"-h": 0, "--usage": 0, "-t": 1, "--threads": 1, "-fa": 1, "--flash-attn": 1, "-no-kvu": 0, "--no-kv-unified": 0,
		"-ot": 1, "--split-mode": 1, "--n-gpu-layers": 1, "--control-vector-layer-range": 2, "--metrics": 0,
		"--no-cors-credentials": 0, "--log-colors": 1, "--temperature": 1, "--a-name-just-as-long-as-this...": 0, "-lzm": 0,
	} {
		if !b.Flags[flag] || b.Values[flag] != values {
			t.Errorf("%s: known %v with %d values, want %d", flag, b.Flags[flag], b.Values[flag], values)
		}
	}
	for _, flag := range []string{"--threads-of-nobody", "--not-a-flag-either", "--draft-max", "--draft", "--spec-ngram-size-n", "-"} {
		if b.Flags[flag] {
			t.Errorf("%s counts as known", flag)
		}
	}
	old := build(t, versionOld, helpOld)
	if old.Values["-fa"] != 0 || old.Values["--lora-scaled"] != 2 || !old.Flags["--no-webui"] {
		t.Errorf("old help misread: %+v", old.Values)
	}
}

func TestBuildRefusesOtherPrograms(t *testing.T) {
	for name, help := range map[string]string{
		"nothing":  "",
		"another":  "-v, --version   show version\n--model FILE\n",
		"too much": strings.Repeat("--port --model\n", 1<<17),
	} {
		if _, err := llama.New(nil).Build("", help); err == nil || !strings.Contains(err.Error(), "check binary or image") {
			t.Errorf("%s: got %v, want an error that sends the owner to binary and image", name, err)
		}
	}
}

func FuzzBuildIsBounded(f *testing.F) {
	f.Add(versionNow, helpNow)
	f.Add(versionOld, helpOld)
	f.Add("version: (build ,)", "-,--,-a,\n--port, --model")
	f.Fuzz(func(t *testing.T, version, help string) {
		b, err := llama.New(nil).Build(version, help)
		if err != nil {
			return
		}
		if len(b.Flags) > 4096 || len(b.Values) > len(b.Flags) || len(b.Version) > 300 || strings.ContainsAny(b.Version, "\n\x1b") {
			t.Errorf("unbounded build: %d flags, version %q", len(b.Flags), b.Version)
		}
		for flag := range b.Flags {
			if len(flag) > 70 || flag[0] != '-' || strings.ContainsAny(flag, " \n,") {
				t.Errorf("impossible flag %q", flag)
			}
		}
	})
}
