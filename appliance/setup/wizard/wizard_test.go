package wizard_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/setup"
	"viiwork/appliance/setup/wizard"
	"viiwork/appliance/status"
	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// talk answers the wizard's questions in plain lines: each answer belongs to the question whose title it names.
type talk struct {
	t     *testing.T
	lines *io.PipeWriter
	mu    sync.Mutex // guards said
	said  strings.Builder
	moves [][2]string // a part of what is asked, and what is answered then
}

// Write sees what the wizard says, and answers once it asks what is next.
func (k *talk) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said.Write(p)
	if text := k.said.String(); len(k.moves) > 0 && strings.HasSuffix(text, ": ") {
		last := text[max(strings.LastIndex(text, "\n\n"), 0):]
		if strings.Contains(last, k.moves[0][0]) {
			answer := k.moves[0][1]
			k.moves = k.moves[1:]
			go io.WriteString(k.lines, answer+"\n")
		} else {
			k.t.Errorf("asked %q, expected something of %q", last, k.moves[0][0])
			go k.lines.Close()
		}
	}
	return len(p), nil
}

func (k *talk) text() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.said.String()
}

// converse runs a wizard that is answered by moves.
func converse(t *testing.T, cfg wizard.Config, moves ...[2]string) (*wizard.Wizard, *talk, func(context.Context) (wizard.Setup, error)) {
	t.Helper()
	in, lines := io.Pipe()
	k := &talk{t: t, lines: lines, moves: moves}
	t.Cleanup(func() { lines.Close() })
	cfg.Prompt = wizard.NewPlain(t.Context(), in, k)
	w := wizard.New(cfg)
	return w, k, w.Run
}

// files lists model files as the node would.
func files(t *testing.T, dir string, names ...string) func(context.Context, string) ([]status.ModelFile, error) {
	return func(_ context.Context, asked string) ([]status.ModelFile, error) {
		if asked != dir {
			t.Errorf("asked for %s", asked)
		}
		var all []status.ModelFile
		for _, name := range names {
			all = append(all, status.ModelFile{Path: filepath.Join(dir, name), Kind: "chat", Architecture: "llama", Quantisation: "Q4_K_M", Size: 1 << 30, Context: 32768})
		}
		return append(all, status.ModelFile{Path: filepath.Join(dir, "cut.gguf"), Error: "is truncated: download it again"}), nil
	}
}

// TestAPlanIsChangedUntilItIsAccepted: what does not fit is said with the reason and cannot be accepted, a line is edited,
// a model dropped.
func TestAPlanIsChangedUntilItIsAccepted(t *testing.T) {
	dir := shelf(t)
	sight := on(t, "rtx3090x2")
	_, k, run := converse(t, wizard.Config{Sight: sight, DryRun: true, Files: files(t, dir, "huge-670B-Q4_0.gguf", "small-1b-Q8_0.gguf")},
		[2]string{"What is this machine called", ""},
		[2]string{"Where are the model files", dir},
		[2]string{"Which models", "1 2"},
		[2]string{"huge-670B-Q4_0.gguf called", ""},
		[2]string{"small-1b-Q8_0.gguf called", "small"},
		[2]string{"What each model gets", "2"}, // drop the first: accepting is not offered
		[2]string{"What each model gets", "2"}, // change the other
		[2]string{"Cards of small", "1"},
		[2]string{"Cards of one engine", ""},
		[2]string{"Slots of small", "3"},
		[2]string{"Context of each slot", "16384"},
		[2]string{"What each model gets", "1"},
		[2]string{"How does this machine come", "3"},
		[2]string{"At which address", "all"},
		[2]string{"Which mesh", "3"},
	)
	draft, err := run(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, k.text())
	}
	remarks := regexp.MustCompile(`(?m)^(note|to do) .*`).FindAllString(k.text(), -1)
	for _, line := range remarks {
		if len(line) > 80 {
			t.Errorf("a terminal breaks this within a word: %s", line)
		}
	}
	if len(remarks) == 0 || !strings.Contains(k.text(), "\n      ") {
		t.Errorf("no remark goes over a line:\n%s", k.text())
	}
	for _, want := range []string{"huge-670B does not fit: needs", "cannot be used: " + filepath.Join(dir, "cut.gguf") + ": is truncated", "1 backend on card 1"} {
		if !strings.Contains(k.text(), want) {
			t.Errorf("never said %q:\n%s", want, k.text())
		}
	}
	m := draft.Config.Models[0]
	if len(draft.Config.Models) != 1 || m.Name != "small" || m.Parallel != 3 || m.Context != 16384 || len(m.GPUs) != 1 || m.GPUs[0] != 1 || !draft.Config.Mesh.Open {
		t.Errorf("got %+v", draft.Config.Models)
	}
}

// TestEndOfInputAnswersNothing: not even what has a usual answer.
func TestEndOfInputAnswersNothing(t *testing.T) {
	for n := range 3 {
		in := strings.NewReader(strings.Repeat("\n", n))
		w := wizard.New(wizard.Config{Sight: on(t, "nogpu"), DryRun: true, Prompt: wizard.NewPlain(t.Context(), in, io.Discard),
			Files: func(context.Context, string) ([]status.ModelFile, error) { return nil, nil }})
		if _, err := w.Run(t.Context()); !errors.Is(err, wizard.ErrNobody) {
			t.Errorf("after %d answers: %v", n, err)
		}
	}
}

// TestALeftWizardTakesItsDeviceBack, and one that was gone through keeps it for the node.
func TestALeftWizardTakesItsDeviceBack(t *testing.T) {
	control, err := localcontrol.Start(localcontrol.Config{RequireLogin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
	for name, agree := range map[string]bool{"left": false, "agreed": true} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "made", "state")
			answers, err := wizard.ParseAnswers("a.yaml", []byte("node: {name: "+name+", state_dir: "+state+"}\nmodels: []\nmesh: {control_url: \""+control.URL()+"\"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			sight := on(t, "nogpu")
			sight.Machine = setup.Machine{}
			w, k, run := converse(t, wizard.Config{Sight: sight, Answers: answers},
				[2]string{"How does this machine come", "2"}, [2]string{"Which mesh", "2"}, [2]string{"Write these files", map[bool]string{true: "1", false: "2"}[agree]})
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			go func() { // the owner, in a browser
				url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/auth/\S+`)
				for ctx.Err() == nil {
					if found := url.FindString(k.text()); found != "" && control.CompleteLogin(found) {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			}()
			draft, err := run(ctx)
			if agree != (err == nil) || !agree && !errors.Is(err, wizard.ErrLeft) {
				t.Fatalf("%v\n%s", err, k.text())
			}
			if strings.Contains(k.text(), "VIIWORK_MESH_SECRET=") && !strings.Contains(k.text(), "VIIWORK_MESH_SECRET=********") {
				t.Error("the secret was shown")
			}
			if !agree {
				if err := w.Forget(); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(filepath.Dir(state)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("left behind: %v", err)
				}
				return
			}
			w.Keep()
			if !draft.Began || draft.Secret == nil || draft.Config.Mesh.Tailnet.ControlURL != control.URL() {
				t.Errorf("got %+v", draft.Config.Mesh)
			}
			goesOn(ctx, t, draft.Config.Node.StateDir, control.URL())
		})
	}
}

// goesOn starts the device as the node would: it is logged in already.
func goesOn(ctx context.Context, t *testing.T, state, control string) {
	t.Helper()
	node, err := tsnode.New(tsnode.Config{Network: tsnode.Tailnet, Name: "agreed", StateDir: state, ControlURL: control, APIPort: 8086, GossipPort: 7946})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	select {
	case <-node.Ready():
	case <-ctx.Done():
		t.Errorf("it does not come up: %+v", node.Status())
	}
	if s := node.Status(); s.LoginURL != "" {
		t.Errorf("it wants a login again: %+v", s)
	}
	stop()
	<-ended
}

func TestNamesOfModelsLeaveOutHowTheirWeightsAreKept(t *testing.T) {
	for file, want := range map[string]string{
		"/m/Qwen3.8-27B-UD-Q4_K_XL.gguf":         "Qwen3.8-27B",
		"gpt-oss-120b-mxfp4-00001-of-00003.gguf": "gpt-oss-120b",
		"granite-4.0-1b-Q8_0.gguf":               "granite-4.0-1b",
		"model.F16.gguf":                         "model",
		"a b/c d(e).gguf":                        "c-d-e",
		"Q4_0.gguf":                              "Q4_0",
		"...gguf":                                "model",
		"Llama-3.3-70B-Instruct-IQ2_XXS-00001-of-00002.gguf": "Llama-3.3-70B-Instruct",
	} {
		if got := wizard.NameOf(file); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

// FuzzAnswers: a file of answers may come from anywhere, and is refused in words or comes to a draft.
func FuzzAnswers(f *testing.F) {
	f.Add("models: []\nmesh: {start: open, network: lan}\n")
	f.Add("models: [{file: a.gguf, gpus: [0, 0], context: -1}]\nmesh: {join: VIIWORK-A}\n")
	f.Add("node: {name: \"\\u0000\"}\nservice: x\n")
	f.Fuzz(func(t *testing.T, text string) {
		answers, err := wizard.ParseAnswers("a.yaml", []byte(text))
		if err != nil || answers.Mesh.JoinFile != "" {
			return
		}
		for _, m := range answers.Models {
			if filepath.IsAbs(m.File) {
				return
			}
		}
		_, _ = wizard.Draft(answers, wizard.Sight{OS: "linux", Name: "n", Fresh: make([]byte, 32)})
	})
}
