package enginetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Main is the fake server as a program: it takes llama-server's flags, ignores those that mean nothing to it, refuses
// those the real one does not know, and returns the exit status. The flags that start with --fake- are its own:
//
//	--fake-load-for D      answer 503 for a time, such as 2s
//	--fake-prefill-tps N   prompt tokens a second
//	--fake-decode-tps N    generated tokens a second
//	--fake-exit-after D    end with status 1 after a time
//	--fake-state-bytes N   KV bytes a token in a slot file
//	--fake-state-layers N  layers in a slot file
//	--fake-save-bps N      bytes of slot files a second
//	--fake-silent          accept inference and never answer
//	--fake-cold-restore    restore slots to no use
//	--fake-no-saves        save no slots, as with a model that reads images
//
// As the real one does, it leaves on the first SIGTERM when idle, freezes on it while a request runs, and leaves with
// status 1 on the second.
func Main(args []string) int { return runProgram(args, os.Stdout, os.Stderr) }

func runProgram(args []string, stdout, stderr io.Writer) int {
	p, err := parseProgram(args)
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, programHelp())
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprint(stderr, versionOut)
		return 0
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 1
	}
	say := func(level, format string, args ...any) {
		fmt.Fprintf(stderr, "0.00.000.000 %s srv  llama_server: "+format+"\n", append([]any{level}, args...)...)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	say("I", "loading model '%s'", p.model)
	if err := checkModel(p.model); err != nil {
		say("E", "failed to load model, '%s': %v", p.model, err)
		say("E", "exiting due to model loading error")
		return 1
	}
	if p.noSaves {
		p.o.SaveDir = ""
	}
	s := New(p.o)
	defer s.Close()
	if err := s.listen(p.host + ":" + p.port); err != nil {
		say("E", "couldn't bind HTTP server socket, hostname: %s, port: %s", p.host, p.port)
		say("E", "exiting due to HTTP server error")
		return 1
	}
	if p.silent {
		s.SetFaults(Faults{Silent: true})
	}
	if p.cold {
		s.SetFaults(Faults{ColdRestore: true})
	}
	say("I", "model loaded")
	say("I", "listening on http://%s", s.listener.Addr())
	return p.serve(s, signals)
}

// program is what the flags say.
type program struct {
	o                 Options
	model, host, port string
	exitAfter         time.Duration
	context, perSlot  int  // -c and --kv-unified-per-slot
	unified           bool // the slots share -c instead of dividing it
	silent, cold      bool
	noSaves           bool
}

func (p program) serve(s *Server, signals <-chan os.Signal) int {
	var end <-chan time.Time
	if p.exitAfter > 0 {
		end = time.After(p.exitAfter)
	}
	for asked := false; ; asked = true {
		select {
		case <-end:
			return 1
		case <-signals:
		}
		switch {
		case asked:
			return 1
		case s.Stats().Active == 0:
			return 0
		}
		s.SetFaults(Faults{Silent: true})
	}
}

func checkModel(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != "GGUF" {
		return errors.New("invalid magic characters")
	}
	return nil
}

var (
	errHelp    = errors.New("help was asked for")
	errVersion = errors.New("the version was asked for")
)

// programFlag is one flag of the program. set is nil for those that mean nothing to the fake.
type programFlag struct {
	names string // comma separated
	value string // placeholder; "" = the flag takes none
	help  string
	set   func(*program, string) error
}

func number(into func(*program) *int) func(*program, string) error {
	return func(p *program, v string) (err error) {
		*into(p), err = strconv.Atoi(v)
		return err
	}
}

func rate(into func(*program) *float64) func(*program, string) error {
	return func(p *program, v string) (err error) {
		*into(p), err = strconv.ParseFloat(v, 64)
		return err
	}
}

func text(into func(*program) *string) func(*program, string) error {
	return func(p *program, v string) error {
		*into(p) = v
		return nil
	}
}

func span(into func(*program) *time.Duration) func(*program, string) error {
	return func(p *program, v string) (err error) {
		*into(p), err = time.ParseDuration(v)
		return err
	}
}

func on(into func(*program) *bool, v bool) func(*program, string) error {
	return func(p *program, _ string) error {
		*into(p) = v
		return nil
	}
}

func keyFile(p *program, path string) error {
	data, err := os.ReadFile(path)
	first, _, _ := strings.Cut(string(data), "\n")
	p.o.Key = strings.TrimSpace(first)
	return err
}

// cacheRAM knows only on and off: the fake counts conversations, not bytes.
func cacheRAM(p *program, v string) error {
	n, err := strconv.Atoi(v)
	if n == 0 {
		p.o.PromptCache = 0
	}
	return err
}

// slotContext is how many tokens a slot gets: the model's own number where no flag gives one.
func (p program) slotContext() int {
	total := p.context
	if total == 0 {
		total = modelContext
	}
	switch {
	case p.perSlot > 0:
		return p.perSlot
	case p.unified || p.context == 0:
		return total
	}
	return total / max(p.o.Slots, 1)
}

const (
	modelContext = 32768
	// ramConversations stands for the engine's default of 8 GiB.
	ramConversations = 64
)

func programFlags() []programFlag {
	return []programFlag{
		{"-h, --help, --usage", "", "print usage and exit", func(*program, string) error { return errHelp }},
		{"--version", "", "show version and build info", func(*program, string) error { return errVersion }},
		{"-m, --model", "FNAME", "model path to load", text(func(p *program) *string { return &p.model })},
		{"-a, --alias", "STRING", "set model name aliases", text(func(p *program) *string { return &p.o.Model })},
		{"--host", "HOST", "ip address to listen on", text(func(p *program) *string { return &p.host })},
		{"--port", "PORT", "port to listen on", text(func(p *program) *string { return &p.port })},
		{"-np, --parallel", "N", "number of server slots", number(func(p *program) *int { return &p.o.Slots })},
		{"-c, --ctx-size", "N", "size of the prompt context", number(func(p *program) *int { return &p.context })},
		{"-kvu, --kv-unified", "", "use a single unified KV buffer", on(func(p *program) *bool { return &p.unified }, true)},
		{"-no-kvu, --no-kv-unified", "", "use a KV buffer for each slot", nil},
		{"--kv-unified-per-slot", "N", "context limit of each slot", number(func(p *program) *int { return &p.perSlot })},
		{"--api-key", "KEY", "API key to use", text(func(p *program) *string { return &p.o.Key })},
		{"--api-key-file", "FNAME", "path to file containing API keys", keyFile},
		{"--slot-save-path", "PATH", "path to save slot kv cache", text(func(p *program) *string { return &p.o.SaveDir })},
		{"--metrics", "", "enable prometheus metrics endpoint", on(func(p *program) *bool { return &p.o.NoMetrics }, false)},
		{"--slots", "", "expose slots monitoring endpoint", nil},
		{"--no-slots", "", "do not expose it", on(func(p *program) *bool { return &p.o.NoSlots }, true)},
		{"--embedding, --embeddings", "", "support embeddings", on(func(p *program) *bool { return &p.o.Embeddings }, true)},
		{"--rerank, --reranking", "", "enable reranking endpoint", on(func(p *program) *bool { return &p.o.Rerank }, true)},
		{"-b, --batch-size", "N", "logical maximum batch size", number(func(p *program) *int { return &p.o.Batch })},
		{"-ub, --ubatch-size", "N", "physical maximum batch size", nil},
		{"--cache-ram", "N", "set the maximum cache size in MiB", cacheRAM},
		{"--cache-idle-slots", "", "move idle slots to the cache", nil},
		{"--no-cache-idle-slots", "", "leave idle slots where they are", nil},
		{"-fa, --flash-attn", "[on|off|auto]", "set Flash Attention use", nil},
		{"-ctk, --cache-type-k", "TYPE", "KV cache data type for K", nil},
		{"-ctv, --cache-type-v", "TYPE", "KV cache data type for V", nil},
		{"-t, --threads", "N", "number of CPU threads", nil},
		{"-tb, --threads-batch", "N", "number of CPU threads for batches", nil},
		{"-ngl, --gpu-layers, --n-gpu-layers", "N", "layers to store in VRAM", nil},
		{"-sm, --split-mode", "{none,layer,row,tensor}", "how to split the model", nil},
		{"-ts, --tensor-split", "N0,N1,N2,...", "fraction of the model for each GPU", nil},
		{"-mg, --main-gpu", "INDEX", "the GPU to use", nil},
		{"-dev, --device", "<dev1,dev2,..>", "devices to use for offloading", nil},
		{"--cors-origins", "ORIGINS", "allowed origins", nil},
		{"--no-webui, --no-ui", "", "disable the web UI", nil},
		{"--jinja", "", "use jinja template engine for chat", nil},
		{"--temp, --temperature", "N", "temperature", nil},
		{"--seed", "SEED", "RNG seed", nil},
		{"--threads-http", "N", "number of threads for HTTP requests", nil},
		{"--pooling", "{none,mean,cls,last,rank}", "pooling type for embeddings", nil},
		{"--log-colors", "[on|off|auto]", "set colored logging", nil},
		{"-lv, --verbosity, --log-verbosity", "N", "set the verbosity threshold", nil},
		{"--offline", "", "offline mode", nil},
		{"--fake-load-for", "D", "answer 503 for a time", span(func(p *program) *time.Duration { return &p.o.LoadFor })},
		{"--fake-prefill-tps", "N", "prompt tokens a second", rate(func(p *program) *float64 { return &p.o.PrefillTPS })},
		{"--fake-decode-tps", "N", "generated tokens a second", rate(func(p *program) *float64 { return &p.o.DecodeTPS })},
		{"--fake-state-bytes", "N", "KV bytes a token in a slot file", number(func(p *program) *int { return &p.o.StateBytes })},
		{"--fake-state-layers", "N", "layers in a slot file", number(func(p *program) *int { return &p.o.StateLayers })},
		{"--fake-save-bps", "N", "bytes of slot files a second", rate(func(p *program) *float64 { return &p.o.SaveBPS })},
		{"--fake-exit-after", "D", "end with status 1 after a time", span(func(p *program) *time.Duration { return &p.exitAfter })},
		{"--fake-cold-restore", "", "restore slots to no use", on(func(p *program) *bool { return &p.cold }, true)},
		{"--fake-no-saves", "", "save no slots, as with a model that reads images", on(func(p *program) *bool { return &p.noSaves }, true)},
		{"--fake-silent", "", "accept inference and never answer", on(func(p *program) *bool { return &p.silent }, true)},
	}
}

func parseProgram(args []string) (program, error) {
	p := program{host: "127.0.0.1", port: "9931", o: Options{Slots: 4, NoMetrics: true, PromptCache: ramConversations}}
	known := map[string]programFlag{}
	for _, f := range programFlags() {
		for name := range strings.SplitSeq(f.names, ", ") {
			known[name] = f
		}
	}
	for len(args) > 0 {
		name := args[0]
		args = args[1:]
		f, ok := known[name]
		if !ok {
			return p, fmt.Errorf("error: invalid argument: %s", name)
		}
		value := ""
		if f.value != "" {
			if len(args) == 0 {
				return p, fmt.Errorf("error while handling argument %q: expected value for argument", name)
			}
			value, args = args[0], args[1:]
		}
		if f.set == nil {
			continue
		}
		if err := f.set(&p, value); err != nil {
			if errors.Is(err, errHelp) || errors.Is(err, errVersion) {
				return p, err
			}
			return p, fmt.Errorf("error while handling argument %q: %w", name, err)
		}
	}
	if p.o.Model == "" {
		p.o.Model = p.model
	}
	p.o.Context = p.slotContext()
	return p, nil
}

func programHelp() string {
	var b strings.Builder
	b.WriteString("----- common params -----\n\n")
	for _, f := range programFlags() {
		left := strings.TrimSpace(f.names + " " + f.value)
		if short, rest, ok := strings.Cut(left, ", "); ok && len(short) < 6 {
			left = fmt.Sprintf("%-6s %s", short+",", rest)
		}
		if len(left) > 39 {
			left += "\n" + strings.Repeat(" ", 40)
		}
		fmt.Fprintf(&b, "%-39s %s\n", left, f.help)
	}
	return b.String()
}
