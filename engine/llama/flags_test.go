package llama_test

import (
	"slices"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/llama"
)

func options(change func(*engine.Options)) engine.Options {
	o := engine.Options{
		Model:   engine.Model{Name: "org/m", Path: "/m/m.gguf", Context: 3000, Parallel: 4, PromptCache: 8 << 30},
		KeyFile: "/s/k", SlotDir: "/s/slots",
	}
	if change != nil {
		change(&o)
	}
	return o
}

func flags(t testing.TB, b engine.Build, o engine.Options) string {
	t.Helper()
	args, err := llama.New(nil).Flags(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return " " + strings.Join(args, " ") + " "
}

func TestFlagsOfACurrentBuildOnTheCPU(t *testing.T) {
	got := flags(t, build(t, versionNow, helpNow), options(func(o *engine.Options) { o.Threads = 2 }))
	want := " -m /m/m.gguf -a org/m -np 4 -kvu --kv-unified-per-slot 3000 --no-cache-idle-slots -fa on" +
		" --slot-save-path /s/slots --metrics --cache-ram 8192 --api-key-file /s/k --cors-origins none" +
		" --no-cors-credentials --no-ui --offline --log-colors off -dev none -t 2 -b 512 -ub 512 "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFlagsFallBackOnOldBuilds(t *testing.T) {
	got := flags(t, build(t, versionOld, helpOld), options(nil))
	// The whole context is divided by the slots there, and a unified pool without a cap a slot stays off.
	want := " -m /m/m.gguf -a org/m -np 4 -c 12000 -fa --api-key-file /s/k --no-webui -ngl 0 "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFlagsFollowTheCards(t *testing.T) {
	b := build(t, versionNow, helpNow)
	cases := map[string]struct {
		change    func(*engine.Options)
		has, lack []string
	}{
		"one card": {
			func(o *engine.Options) { o.GPUs, o.Model.Accel = []int{3}, engine.AccelCUDA },
			[]string{"-ngl 999"}, []string{"-dev", "-sm", "-ts", "-b"},
		},
		"two cards, uneven": {
			func(o *engine.Options) {
				o.GPUs, o.Model.Accel, o.Model.SplitMode = []int{0, 1}, engine.AccelROCm, "row"
				o.Model.SplitWeights = []float64{3, 0.5}
			},
			[]string{"-ngl 999", "-sm row", "-ts 3,0.5", "-b 512", "-ub 512"}, []string{"-dev"},
		},
		"two cards, defaults": {
			func(o *engine.Options) { o.GPUs, o.Model.Accel = []int{0, 1}, engine.AccelCUDA },
			[]string{"-sm layer"}, []string{"-ts"},
		},
		"a Mac": {
			func(o *engine.Options) { o.Model.Accel = engine.AccelMetal },
			[]string{"-ngl 999"}, []string{"-dev", "-b", "-sm"},
		},
		"own batch": {
			func(o *engine.Options) { o.Model.Args = []string{"--ubatch_size=64"} },
			[]string{"--ubatch-size 64"}, []string{"-b", "-ub"},
		},
		"embeddings in 3 slots": {
			func(o *engine.Options) {
				o.GPUs, o.Model.Accel, o.Model.Parallel, o.Model.Args = []int{0}, engine.AccelCUDA, 3, []string{"--embeddings"}
			},
			[]string{"-b 510", "-ub 510"}, nil,
		},
		"no prompt cache": {
			func(o *engine.Options) { o.Model.PromptCache = 0 },
			[]string{"--cache-ram 0"}, nil,
		},
		"a byte of prompt cache": {
			func(o *engine.Options) { o.Model.PromptCache = 1 },
			[]string{"--cache-ram 1"}, nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := flags(t, b, options(c.change))
			for _, f := range c.has {
				if !strings.Contains(got, " "+f+" ") {
					t.Errorf("no %q in %s", f, got)
				}
			}
			for _, f := range c.lack {
				if strings.Contains(got, " "+f+" ") {
					t.Errorf("%q in %s", f, got)
				}
			}
		})
	}
}

func TestOwnersFlagsComeLast(t *testing.T) {
	b := build(t, versionNow, helpNow)
	own := []string{"--temp", "-1", "-ot", "-x", "--flash_attn=off", "--embeddings", "--control-vector-layer-range", "1", "9"}
	args, err := llama.New(nil).Flags(b, options(func(o *engine.Options) { o.Model.Args = own }))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--temp", "-1", "-ot", "-x", "--flash-attn", "off", "--embeddings", "--control-vector-layer-range", "1", "9"}
	if got := args[len(args)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("args end in %q, want %q", got, want)
	}
}

func TestOwnersFlagsAreCheckedBeforeTheEngineStarts(t *testing.T) {
	b := build(t, versionNow, helpNow)
	cases := []struct {
		args []string
		want string
	}{
		{[]string{"--nope"}, "unknown flag --nope for llama-server 0.7.0 (build 11669): remove it from args"},
		{[]string{"--thread", "2"}, "did you mean --threads?"},
		{[]string{"-threads", "2"}, "did you mean --threads?"},
		{[]string{"-pn", "2"}, "did you mean -np?"}, // swapped letters are one slip
		{[]string{"--mlock"}, "did you mean -lm mlock?"},
		{[]string{"--draft-max", "4"}, "did you mean --spec-draft-n-max?"},
		{[]string{"--metrics", "on"}, `"on" in args follows no flag that takes it`},
		{[]string{"--metrics=on"}, "flag --metrics takes no value"},
		{[]string{"--temp"}, "flag --temp of llama-server 0.7.0 (build 11669) wants a value"},
		{[]string{"0.7"}, `"0.7" in args follows no flag`},
		{[]string{""}, `"" in args follows no flag`},
		{[]string{"--port", "80"}, "flag --port is not for args: viiwork picks the engine's address"},
		{[]string{"--host=0.0.0.0"}, "flag --host is not for args"},
		{[]string{"--api_key", "s3cret"}, "flag --api-key is not for args: viiwork gives each engine its own key"},
		{[]string{"--cors-origins", "*"}, "set api.cors"},
		{[]string{"-np", "8"}, "set parallel"},
		{[]string{"-c", "100"}, "set context"},
		{[]string{"--cache-ram", "1"}, "set llamacpp.prompt_cache"},
		{[]string{"--models-dir", "/x"}, "list each under models"},
		{[]string{"-hf", "a/b"}, "set path"},
		{[]string{"--tools", "all"}, "run programs on this machine"},
		{[]string{"--lora", "--tools"}, "flag --tools is not for args"},
		{[]string{"-ag"}, "run programs on this machine"},
		{[]string{"--mcp-servers-json", "{}"}, "run programs on this machine"},
		{[]string{"--ui-mcp-proxy"}, "run programs on this machine"},
		{[]string{"--slot-save-path", "/x"}, "viiwork saves, restores and watches the slots"},
		{[]string{"--version"}, "would print something and end"},
	}
	for _, c := range cases {
		_, err := llama.New(nil).Flags(b, options(func(o *engine.Options) { o.Model.Args = c.args }))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error with %q", c.args, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows a secret: %v", c.args, err)
		}
	}
}

func TestOwnersVariablesAreHeldToTheSameList(t *testing.T) {
	b := build(t, versionNow, helpNow)
	for env, refused := range map[string]bool{
		"LLAMA_ARG_TOOLS": true, "LLAMA_ARG_PORT": true, "LLAMA_API_KEY": true, "LLAMA_ARG_NO_KV_UNIFIED": true, "LLAMA_ARG_CTX_SIZE": true,
		"LLAMA_ARG_TOP_K": false, "CUDA_SCALE_LAUNCH_QUEUES": false,
	} {
		_, err := llama.New(nil).Flags(b, options(func(o *engine.Options) { o.Model.Env = map[string]string{env: "s3cret"} }))
		if (err != nil) != refused {
			t.Errorf("%s: got %v, want refused %v", env, err, refused)
		}
		if err != nil && (!strings.Contains(err.Error(), env) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: the error must name the variable and not its value: %v", env, err)
		}
	}
}

func TestFlagsRefuseWhatNoFlagCanSay(t *testing.T) {
	now, old := build(t, versionNow, helpNow), build(t, versionOld, strings.ReplaceAll(helpOld, "--api-key-file", "--gone"))
	cases := map[string]struct {
		b      engine.Build
		change func(*engine.Options)
		want   string
	}{
		"no file":      {now, func(o *engine.Options) { o.Model.Path = "" }, "set path"},
		"no context":   {now, func(o *engine.Options) { o.Model.Context = 0 }, "set context and parallel"},
		"weights":      {now, func(o *engine.Options) { o.GPUs, o.Model.SplitWeights = []int{0, 1}, []float64{1, 2, 3} }, "one a card"},
		"no key check": {old, nil, "has no --api-key-file: use a newer build"},
	}
	for name, c := range cases {
		if _, err := llama.New(nil).Flags(c.b, options(c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func FuzzNoFlagSlipsPastTheList(f *testing.F) {
	for _, seed := range []string{"--temp\x001", "--port\x0080", "--lora\x00--tools\x00all", "--metrics=x", "-t=4\x00-fa"} {
		f.Add(seed)
	}
	b := build(f, versionNow, helpNow)
	f.Fuzz(func(t *testing.T, joined string) {
		own := strings.Split(joined, "\x00")
		args, err := llama.New(nil).Flags(b, options(func(o *engine.Options) { o.Model.Args = own }))
		if err != nil {
			return
		}
		plain, err := llama.New(nil).Flags(b, options(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range args[min(len(plain), len(args))-min(4, len(plain)):] {
			switch strings.ReplaceAll(a, "_", "-") {
			case "--port", "--host", "--tools", "--api-key", "--agent":
				t.Errorf("%q let %s through", own, a)
			}
		}
	})
}
