package wizard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/appliance/setup"
	"viiwork/appliance/setup/wizard"
)

// drafted is what a file of answers comes to on a machine without cards.
func drafted(t *testing.T, text string, change func(*wizard.Sight)) (wizard.Setup, error) {
	t.Helper()
	answers, err := wizard.ParseAnswers("a.yaml", []byte(text))
	if err != nil {
		return wizard.Setup{}, err
	}
	sight := on(t, "nogpu")
	if change != nil {
		change(&sight)
	}
	return wizard.Draft(answers, sight)
}

// TestFaultsStandAtTheAnswersThatMakeThem, also those that only the configuration knows to be wrong.
func TestFaultsStandAtTheAnswersThatMakeThem(t *testing.T) {
	for text, want := range map[string]string{
		"node: {name: A B}":                     "a.yaml:1:14: node.name",
		"api: {port: 99999}":                    "a.yaml:1:13: api.port",
		"node: {state_dir: some/where}":         "a.yaml:1:19: node.state_dir: \"some/where\" is no whole path",
		"models_dir: models":                    "a.yaml:1:13: models_dir: \"models\" is no whole path",
		"node: {state_dir: \"/x\\ny\"}":         "a.yaml:1:19: node.state_dir: the path holds control characters",
		"service: launchd":                      "a.yaml:1:10: service: this machine has no launchd",
		"node: {name: A}\napi: {port: -1}":      "a.yaml:2:13: api.port",
		"api: {host: \"a\\nExecStartPre=b\"}":   "a.yaml:1:13: api.host",
		"engine: {image: \"a b\"}\nnode: {}":    "",
		"node: {name: attic}\nservice: systemd": "",
	} {
		for _, network := range []string{"lan", "tailnet"} {
			_, err := drafted(t, text+"\nmodels: []\nmesh: {start: open, network: "+network+"}\n", nil)
			var faults config.Faults
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", text, err)
			case want != "" && (!errors.As(err, &faults) || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: got %v, want %s", text, err, want)
			}
		}
	}
	_, err := drafted(t, "models: []\nmesh: {start: secured, hostname: -x-, control_url: nowhere}\n", nil)
	for _, want := range []string{"a.yaml:2:34: mesh.hostname", "a.yaml:2:52: mesh.control_url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestWhatComposeLacksIsToBeDoneFirst, and is nobody's business who has another service.
func TestWhatComposeLacksIsToBeDoneFirst(t *testing.T) {
	for service, want := range map[string]int{"compose": 1, "systemd": 0} {
		d, err := drafted(t, "models: []\nmesh: {start: secured, network: lan}\nservice: "+service+"\n", func(s *wizard.Sight) { s.Compose = []string{"install it"} })
		if err != nil || len(d.Todo) != want {
			t.Errorf("%s: %v, to do %q", service, err, d.Todo)
		}
	}
}

// TestPathsThatBreakOutOfTheirLinesAreRefused: a line of a unit is an order to systemd.
func TestPathsThatBreakOutOfTheirLinesAreRefused(t *testing.T) {
	const text = "models: []\nmesh: {start: secured, network: lan}\nservice: systemd\n"
	for _, path := range []string{"/x\nExecStartPre=evil\n#/viiwork.yaml", "/x\x1b[2J/viiwork.yaml", "/x\xff/viiwork.yaml", "/x/viiwork.env"} {
		if _, err := drafted(t, text, func(s *wizard.Sight) { s.Path = path }); err == nil {
			t.Errorf("%q is taken", path)
		}
	}
	if _, err := drafted(t, text, func(s *wizard.Sight) {
		s.Machine = setup.Machine{Manager: setup.Systemd, User: true, Home: "/h\nExecStartPre=evil\n#"}
	}); err == nil {
		t.Error("a home of two lines is taken")
	}
	if _, err := drafted(t, text, func(s *wizard.Sight) { s.Path = "/x y/ä'#:\"%$\\/viiwork.yaml" }); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a\nb.gguf", "a\xff.gguf", "\ufeffa.gguf"} {
		dir := t.TempDir()
		if err := small1B.Write(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		answers := wizard.Answers{ModelsDir: dir, Models: []wizard.ModelAnswer{{File: name}}, Mesh: wizard.MeshAnswers{Start: "open", Network: "lan"}}
		w := wizard.New(wizard.Config{Sight: on(t, "nogpu"), Answers: answers, DryRun: true})
		if _, err := w.Run(t.Context()); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// TestOddNamesAreServedUnderTheirPaths: what is written for a file leads to that file.
func TestOddNamesAreServedUnderTheirPaths(t *testing.T) {
	dir := t.TempDir()
	var models []string
	names := []string{"a'b", `q"q`, "x: y", "#c", " lead", "tab é ü 模型 🦙", "- dash", "*star", "&a", "%h $HOME ${X}", `back\n`, "!!int 5", "{a}", "[0]", "~", "null", "012"}
	for i, name := range names {
		if err := small1B.Write(dir + "/" + name + ".gguf"); err != nil {
			t.Fatal(err)
		}
		models = append(models, fmt.Sprintf("{file: %q, name: m%d}", name+".gguf", i))
	}
	draft, err := drafted(t, fmt.Sprintf("models_dir: %q\nmodels: [%s]\nmesh: {start: open, network: lan}\n", dir, strings.Join(models, ", ")),
		func(s *wizard.Sight) { s.Memory = 1 << 42 })
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("v.yaml", draft.Config.Text(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range cfg.Models {
		if m.Path != dir+"/"+names[i]+".gguf" {
			t.Errorf("%q became %q", names[i], m.Path)
		}
	}
}

// TestStrangersWordsDoNotDriveTheTerminal: names of files, headers of models, names of machines.
func TestStrangersWordsDoNotDriveTheTerminal(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\u009b1m\r\u202e"
	var out bytes.Buffer
	p := wizard.NewPlain(t.Context(), strings.NewReader("1\n\nx\n"), &out)
	p.Tell("line" + evil + "\nnext")
	_, err := p.Choose(t.Context(), wizard.Question{Title: evil, Help: evil, Options: []string{evil, "b"}})
	_, askErr := p.Ask(t.Context(), wizard.Question{Title: evil, Text: evil})
	if err := errors.Join(err, askErr); err != nil || strings.ContainsAny(out.String(), "\x1b\a\r\u009b\u202e") || !strings.Contains(out.String(), "\nnext") {
		t.Errorf("%v: %q", err, out.String())
	}
}

// TestALineTooLongIsNoEndOfTheInput: it is a wrong answer, and the question stands.
func TestALineTooLongIsNoEndOfTheInput(t *testing.T) {
	in := io.MultiReader(strings.NewReader("VIIWORK-"), bytes.NewReader(bytes.Repeat([]byte("A"), 1<<20)), strings.NewReader("\nright\n"))
	p := wizard.NewPlain(t.Context(), in, io.Discard)
	got, err := p.Ask(t.Context(), wizard.Question{Title: "x", Check: func(s string) error {
		if s != "right" {
			return errors.New("no")
		}
		return nil
	}})
	if err != nil || got != "right" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestJoinFileMayBeAPipe, which can be read once.
func TestJoinFileMayBeAPipe(t *testing.T) {
	code, err := mesh.JoinCode{Network: "lan", Addresses: []string{"cellar"}, Secret: make([]byte, 32)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	io.WriteString(w, code+"\n")
	w.Close()
	draft, err := drafted(t, fmt.Sprintf("models: []\nmesh: {join_file: /dev/fd/%d}\n", r.Fd()), nil)
	if err != nil || draft.Secret == nil || len(draft.Config.Mesh.Seeds) != 1 {
		t.Errorf("%v: %+v", err, draft.Config.Mesh)
	}
}

// TestUnattendedSetupEndsWhereANodeCouldNotServe: nobody is there to say that it may go on without what is missing.
func TestUnattendedSetupEndsWhereANodeCouldNotServe(t *testing.T) {
	answers, err := wizard.ParseAnswers("a.yaml", []byte("models: []\nmesh: {start: open, network: lan}\napi: {port: 8123}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for state, refused := range map[setup.State]bool{setup.Fail: true, setup.Warn: false, setup.OK: false} {
		w := wizard.New(wizard.Config{Sight: on(t, "nogpu"), Answers: answers, Preflight: func(_ context.Context, n setup.Needs) []setup.Check {
			if n.Port != 8123 || !n.NoDocker {
				t.Errorf("asked for %+v", n)
			}
			return []setup.Check{{ID: "port", State: state, Text: ":8123 is taken", Cause: "another viiwork", Fix: "choose another port"}}
		}})
		if _, err := w.Run(t.Context()); (err != nil) != refused || refused && !strings.Contains(err.Error(), ":8123 is taken: another viiwork: choose another port") {
			t.Errorf("%s: %v", state, err)
		}
	}
}
