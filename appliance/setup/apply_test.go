package setup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
)

// tree is everything below dir: modes, links and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			found[rel+"/"] = info.Mode().String()
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			found[rel] = "-> " + to
		case !d.Type().IsRegular():
			found[rel] = info.Mode().String()
		default:
			text, _ := os.ReadFile(path)
			found[rel] = info.Mode().String() + " " + string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func differ(t *testing.T, got, want map[string]string) {
	t.Helper()
	for path, is := range got {
		if want[path] != is {
			t.Errorf("%s is %q, want %q", path, is, want[path])
		}
	}
	for path := range want {
		if _, ok := got[path]; !ok {
			t.Errorf("%s is gone", path)
		}
	}
}

// node is a plan of everything a service needs, the program included.
func node(t *testing.T, root string, change func(*setup.Answers)) setup.Plan {
	t.Helper()
	program := filepath.Join(t.TempDir(), "viiwork")
	if err := os.WriteFile(program, []byte("the program"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := setup.Answers{Config: config.Default(), Secret: make(config.Secret, 32)}
	a.Config.Node.Name = "attic"
	if change != nil {
		change(&a)
	}
	files, _ := setup.Files(setup.Machine{Root: root, Manager: setup.Systemd, Program: program, Version: "v1"}, a)
	return setup.Plan{Root: root, Files: files}
}

func never(t *testing.T) func(string) bool {
	return func(diff string) bool {
		t.Errorf("asked although nothing is lost:\n%s", diff)
		return false
	}
}

func TestFilesAreWrittenWithTheirModesAndASecondTimeNotAtAll(t *testing.T) {
	root := t.TempDir()
	p := node(t, root, nil)
	if err := setup.Apply(t.Context(), p, never(t)); err != nil {
		t.Fatal(err)
	}
	first := tree(t, root)
	for path, mode := range map[string]string{
		"etc/viiwork/viiwork.env":            "-rw-------",
		"etc/viiwork/viiwork.yaml":           "-rw-r--r--",
		"opt/viiwork/versions/v1/viiwork":    "-rwxr-xr-x the program",
		"opt/viiwork/versions/current":       "-> v1",
		"var/lib/viiwork/":                   "drwx------",
		"etc/systemd/system/viiwork.service": "-rw-r--r--",
	} {
		if !strings.HasPrefix(first[path], mode) {
			t.Errorf("%s is %.40q, want %s", path, first[path], mode)
		}
	}
	if err := setup.Apply(t.Context(), p, never(t)); err != nil {
		t.Fatal(err)
	}
	differ(t, tree(t, root), first)
}

// TestNothingIsOverwrittenUnasked: a no leaves everything; a yes keeps what was there.
func TestNothingIsOverwrittenUnasked(t *testing.T) {
	root := t.TempDir()
	yaml, unit := filepath.Join(root, "etc/viiwork/viiwork.yaml"), filepath.Join(root, "etc/systemd/system/viiwork.service")
	for path, text := range map[string]string{yaml: "mine: [precious]\n", unit: "[Unit]\n# Written by viiwork. Or once was.\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	p := node(t, root, nil)
	for _, f := range p.Files {
		want := map[string]setup.Existing{"/etc/viiwork/viiwork.yaml": setup.Foreign, "/etc/systemd/system/viiwork.service": setup.Ours, "/etc/viiwork": setup.Same}[f.Path]
		if is, diff, err := p.Compare(f); err != nil || want != "" && (is != want || (diff == "") != (want == setup.Same)) {
			t.Errorf("%s is %s, %v, want %s:\n%s", f.Path, is, err, want, diff)
		}
	}
	before := tree(t, root)
	var asked string
	err := setup.Apply(t.Context(), p, func(diff string) bool { asked = diff; return false })
	if !errors.Is(err, setup.ErrRefused) {
		t.Errorf("got %v", err)
	}
	for _, part := range []string{"-mine: [precious]", "+  name: attic", "viiwork.service", "mode from 0640 to 0644"} {
		if !strings.Contains(asked, part) {
			t.Errorf("the question lacks %q:\n%s", part, asked)
		}
	}
	differ(t, tree(t, root), before)
	if err := setup.Apply(t.Context(), p, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	kept, _ := filepath.Glob(yaml + ".bak-*")
	if len(kept) != 1 {
		t.Fatalf("kept %v", kept)
	}
	if text, _ := os.ReadFile(kept[0]); string(text) != "mine: [precious]\n" {
		t.Errorf("kept %q", text)
	}
	if kept, _ := filepath.Glob(filepath.Join(root, "opt/viiwork/versions/.*")); len(kept) > 0 {
		t.Errorf("left behind: %v", kept)
	}
}

func TestReplacedSecretIsNotShown(t *testing.T) {
	root := t.TempDir()
	if err := setup.Apply(t.Context(), node(t, root, nil), never(t)); err != nil {
		t.Fatal(err)
	}
	p := node(t, root, func(a *setup.Answers) { a.Secret[0] = 1 })
	var asked string
	if err := setup.Apply(t.Context(), p, func(diff string) bool { asked = diff; return true }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asked, "viiwork.env gets other secrets") || strings.Contains(asked, "AAAA") {
		t.Errorf("asked %q", asked)
	}
	kept, _ := filepath.Glob(filepath.Join(root, "etc/viiwork/viiwork.env.bak-*"))
	if len(kept) != 1 {
		t.Fatalf("kept %v", kept)
	}
	if info, _ := os.Stat(kept[0]); info.Mode().Perm() != 0o600 {
		t.Errorf("the old secrets are kept with mode %v", info.Mode())
	}
}

// TestAFaultAnywhereLeavesTheMachineAsItWas: of each rename in turn, and of what is written before them.
func TestAFaultAnywhereLeavesTheMachineAsItWas(t *testing.T) {
	fault := errors.New("the disk is gone")
	fails := func(string, string) error { return fault }
	for _, existing := range []bool{false, true} {
		for n := range 5 {
			t.Run(fmt.Sprintf("rename %d existing %v", n, existing), func(t *testing.T) {
				root := t.TempDir()
				if existing {
					if err := setup.Apply(t.Context(), node(t, root, func(a *setup.Answers) { a.Secret[0], a.Config.Node.Name = 1, "cellar" }), never(t)); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(root, "etc/systemd/system/viiwork.service"), []byte("[Unit]\n"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				before := tree(t, root)
				p := node(t, root, nil)
				p.CutAt(n, os.Rename, fails)
				err := setup.Apply(t.Context(), p, func(string) bool { return true })
				if existing && n > 2 && err == nil {
					return // program and link are the same: fewer renames
				}
				if !errors.Is(err, fault) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("got %v", err)
				}
				differ(t, tree(t, root), before)
			})
		}
	}
	t.Run("source", func(t *testing.T) {
		root := t.TempDir()
		p := node(t, root, nil)
		for i := range p.Files {
			if p.Files[i].From != "" {
				p.Files[i].From = t.TempDir()
			}
		}
		if err := setup.Apply(t.Context(), p, never(t)); err == nil {
			t.Error("a folder was taken for the program")
		}
		differ(t, tree(t, root), map[string]string{"./": tree(t, root)["./"]})
	})
	t.Run("ended", func(t *testing.T) {
		root := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := setup.Apply(ctx, node(t, root, nil), never(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestPowerCutBetweenTwoFilesLeavesWhatANodeStartsFrom: after each rename the configuration and its secrets fit together,
// or there is no configuration yet.
func TestPowerCutBetweenTwoFilesLeavesWhatANodeStartsFrom(t *testing.T) {
	cut := errors.New("power cut")
	for _, again := range []bool{false, true} {
		for n := range 5 {
			root := t.TempDir()
			if again {
				if err := setup.Apply(t.Context(), node(t, root, func(a *setup.Answers) { a.Secret[0], a.Config.Node.Name = 1, "cellar" }), never(t)); err != nil {
					t.Fatal(err)
				}
			}
			p := node(t, root, nil)
			p.CutAt(n, os.Rename, func(string, string) error { panic(cut) })
			func() {
				defer func() { _ = recover() }()
				_ = setup.Apply(t.Context(), p, func(string) bool { return true })
			}()
			path := filepath.Join(root, "etc/viiwork/viiwork.yaml")
			_, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				if _, err := os.Stat(filepath.Join(root, "etc/systemd/system/viiwork.service")); err == nil || again {
					t.Errorf("cut %d: a service without a configuration", n)
				}
				continue
			}
			environ, err := config.Beside(path, nil)
			if err == nil {
				_, err = config.Load(path, environ)
			}
			if err != nil {
				t.Errorf("cut %d: %v", n, err)
			}
			// The next run finishes it, and clears what was left: half of it is secrets.
			if err := setup.Apply(t.Context(), node(t, root, nil), func(string) bool { return true }); err != nil {
				t.Fatal(err)
			}
			for path := range tree(t, root) {
				if strings.Contains(path, ".new-") {
					t.Errorf("cut %d: %s is left", n, path)
				}
			}
		}
	}
}

func TestWhatStandsInTheWayIsNamed(t *testing.T) {
	for name, stand := range map[string]func(path string) error{
		"folder": func(path string) error { return os.MkdirAll(path, 0o755) },
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		root := t.TempDir()
		path := filepath.Join(root, "etc/viiwork/viiwork.yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := stand(path); err != nil {
			t.Fatal(err)
		}
		before := tree(t, root)
		if err := setup.Apply(t.Context(), node(t, root, nil), never(t)); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: got %v", name, err)
		}
		differ(t, tree(t, root), before)
	}
}

func TestLinkOfTheOwnersIsReplacedOnlyWhenAsked(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "etc/viiwork/viiwork.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "repository.yaml")
	if err := errors.Join(os.WriteFile(target, []byte("node: {}\n"), 0o644), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	if err := setup.Apply(t.Context(), node(t, root, nil), func(diff string) bool { return !strings.Contains(diff, target) }); !errors.Is(err, setup.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if err := setup.Apply(t.Context(), node(t, root, nil), func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(target); string(text) != "node: {}\n" {
		t.Errorf("written through the link: %s", text)
	}
}

// TestWhatIsWrittenMeanwhileIsNotOverwritten: a yes is to what was shown, not to what an editor or another run has put
// there since.
func TestWhatIsWrittenMeanwhileIsNotOverwritten(t *testing.T) {
	for name, before := range map[string]string{"new": "", "edited": "# mine\n"} {
		root := t.TempDir()
		config := filepath.Join(root, "etc/viiwork/viiwork.yaml")
		write := func(path, text string) {
			t.Helper()
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(root, "etc/systemd/system/viiwork.service"), "[Service]\n") // so that something is asked
		if before != "" {
			write(config, before)
		}
		err := setup.Apply(t.Context(), node(t, root, nil), func(string) bool {
			write(config, "# written while the question stood\n")
			return true
		})
		if err == nil || !strings.Contains(err.Error(), "run this again") {
			t.Errorf("%s: got %v", name, err)
		}
		if text, _ := os.ReadFile(config); string(text) != "# written while the question stood\n" {
			t.Errorf("%s: overwritten with %q", name, text)
		}
		if _, err := os.Stat(filepath.Join(root, "etc/viiwork/viiwork.env")); err == nil {
			t.Errorf("%s: the secrets before it were not taken back", name)
		}
	}
}
