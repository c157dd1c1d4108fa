package setup_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/engine"
	"viiwork/engine/native"
)

// nilSignal only asks whether a process is there.
const nilSignal = syscall.Signal(0)

// installed is a machine below a root on which a node was set up and has run, and the uninstall of it.
func installed(t *testing.T, ran *[]string) (string, setup.Uninstall) {
	t.Helper()
	root := t.TempDir()
	p := node(t, root, nil)
	if err := setup.Apply(t.Context(), p, never(t)); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"run/systemd/system/x":                               "",
		"var/lib/viiwork/lock":                               "",
		"var/lib/viiwork/rates.json":                         "{}",
		"srv/models/m.gguf":                                  "weights",
		"etc/viiwork/viiwork.env.bak-20260101-000000":        "# Written by viiwork\nVIIWORK_MESH_SECRET=old\n",
		"etc/viiwork/viiwork.yaml.bak-20260101-000000":       "node: {}\n",
		"etc/viiwork/viiwork.yaml.bak-of-mine":               "node: {}\n",
		"opt/viiwork/versions/mine.txt":                      "notes",
		"opt/viiwork/versions/v1.0.0/viiwork":                "a program",
		"opt/viiwork/versions/state.json":                    "{}",
		"opt/viiwork/versions/lock":                          "",
		"opt/viiwork/versions/judge":                         "",
		"opt/viiwork/versions/judge.log":                     "",
		"opt/viiwork/versions/.new-1/viiwork":                "half a program",
		"opt/viiwork/versions/.new-state.json":               "{",
		"etc/systemd/system/viiwork.service.d/override.conf": "[Service]\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config.Default()
	cfg.Node.Name, cfg.Mesh.Tailnet.Hostname = "attic", "viiwork-attic"
	return root, setup.Uninstall{
		Machine: setup.Machine{Root: root, Manager: setup.Systemd}, ConfigPath: "/etc/viiwork/viiwork.yaml", Config: &cfg,
		Run: recorded(ran, ""), Running: func(context.Context) bool { return false },
	}
}

func said(t *testing.T) func(string, error) {
	return func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestUninstallLeavesModelsAndConfigurationAndNothingElseOfOurs(t *testing.T) {
	var ran []string
	root, u := installed(t, &ran)
	before := tree(t, root)
	l := u.Survey(t.Context())
	differ(t, tree(t, root), before)
	if len(l.Faults) > 0 || len(ran) > 0 {
		t.Errorf("faults %v, ran %v", l.Faults, ran)
	}
	if err := l.Remove(t.Context(), said(t)); err != nil {
		t.Fatal(err)
	}
	var left []string
	for path := range tree(t, root) {
		if !strings.HasSuffix(path, "/") {
			left = append(left, path)
		}
	}
	slices.Sort(left)
	want := []string{
		"etc/systemd/system/viiwork.service.d/override.conf",
		"etc/viiwork/viiwork.yaml", "etc/viiwork/viiwork.yaml.bak-20260101-000000", "etc/viiwork/viiwork.yaml.bak-of-mine",
		"opt/viiwork/versions/mine.txt", "run/systemd/system/x", "srv/models/m.gguf",
	}
	if !slices.Equal(left, want) {
		t.Errorf("left\n%s\nwant\n%s", strings.Join(left, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(ran, []string{"systemctl disable --now viiwork.service", "systemctl daemon-reload"}) {
		t.Errorf("ran %q", ran)
	}
	if stays := strings.Join(l.Stays, "\n"); !strings.Contains(stays, "/srv/models: models are never touched") || !strings.Contains(stays, "viiwork.yaml: --purge") || !strings.Contains(stays, "mine.txt: not written") {
		t.Errorf("said to stay:\n%s", stays)
	}
	u.Purge = true
	if err := u.Survey(t.Context()).Remove(t.Context(), said(t)); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Join(root, "etc/viiwork")); len(entries) != 1 || entries[0].Name() != "viiwork.yaml.bak-of-mine" {
		t.Errorf("after --purge: %v", entries)
	}
}

func TestWhatIsNotOursIsNeverRemoved(t *testing.T) {
	var ran []string
	root, u := installed(t, &ran)
	for _, path := range []string{"etc/systemd/system/viiwork.service", "etc/viiwork/viiwork.env"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte("[Service]\nExecStart=/usr/bin/mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.Purge = true
	if err := u.Survey(t.Context()).Remove(t.Context(), said(t)); err != nil {
		t.Fatal(err)
	}
	if len(ran) > 0 {
		t.Errorf("ran %q", ran)
	}
	for _, path := range []string{"etc/systemd/system/viiwork.service", "etc/viiwork/viiwork.env", "srv/models/m.gguf"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
}

func TestStateDirectoryThatIsMoreThanThatStays(t *testing.T) {
	for name, slip := range map[string]func(root string, u *setup.Uninstall){
		"models": func(_ string, u *setup.Uninstall) { u.Config.Node.StateDir = "/srv/models" },
		"above": func(_ string, u *setup.Uninstall) {
			u.Config.Node.StateDir, u.Config.ModelsDir = "/var/lib", "/var/lib/viiwork"
		},
		"root":   func(_ string, u *setup.Uninstall) { u.Config.Node.StateDir = "/" },
		"top":    func(_ string, u *setup.Uninstall) { u.Config.Node.StateDir = "/srv" },
		"home":   func(_ string, u *setup.Uninstall) { u.Machine.Home = "/var/lib/viiwork" },
		"config": func(_ string, u *setup.Uninstall) { u.Config.Node.StateDir = "/etc/viiwork" },
		"link above": func(root string, u *setup.Uninstall) { // one folder by two names
			u.Machine.Home = "/home/ann"
			os.MkdirAll(filepath.Join(root, "home"), 0o755)
			os.Rename(filepath.Join(root, "var/lib/viiwork"), filepath.Join(root, "home/ann"))
			os.Symlink(filepath.Join(root, "home"), filepath.Join(root, "data"))
			os.Symlink(filepath.Join(root, "home/ann"), filepath.Join(root, "var/lib/viiwork")) // looked at below
			u.Config.Node.StateDir = "/data/ann"
		},
		"shared": func(root string, u *setup.Uninstall) { // a node ran on a folder that others use
			u.Config.Node.StateDir = "/var/lib"
			os.WriteFile(filepath.Join(root, "var/lib/lock"), nil, 0o600)
		},
		"foreign": func(root string, _ *setup.Uninstall) { os.Remove(filepath.Join(root, "var/lib/viiwork/lock")) },
	} {
		t.Run(name, func(t *testing.T) {
			root, u := installed(t, new([]string))
			slip(root, &u)
			u.Survey(t.Context()).Remove(t.Context(), said(t))
			for _, path := range []string{"var/lib/viiwork/rates.json", "srv/models/m.gguf", "etc/viiwork/viiwork.yaml"} {
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestOnlyAFolderOfOursIsTakenForTheSpool(t *testing.T) {
	for _, name := range []string{"viiwork-0-abcd", "precious", "viiwork-open"} {
		root, u := installed(t, new([]string))
		spool := filepath.Join(t.TempDir(), name)
		mode := os.FileMode(0o700)
		if name == "viiwork-open" {
			mode = 0o755
		}
		if err := errors.Join(os.Mkdir(spool, mode), os.WriteFile(filepath.Join(root, "var/lib/viiwork/spool"), []byte("boot-id "+spool+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := u.Survey(t.Context()).Remove(t.Context(), said(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(spool); (err == nil) == (name == "viiwork-0-abcd") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAStepThatFailsStopsNoOther, but a node that goes on running keeps what it stands on.
func TestAStepThatFailsStopsNoOther(t *testing.T) {
	root, u := installed(t, new([]string))
	u.Run = recorded(new([]string), "disable")
	var failed []string
	err := u.Survey(t.Context()).Remove(t.Context(), func(what string, err error) {
		if err != nil {
			failed = append(failed, what)
		}
	})
	if err == nil || len(failed) != 1 || !strings.Contains(failed[0], "the service") {
		t.Errorf("failed %v, %v", failed, err)
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/viiwork")); err == nil {
		t.Error("the rest was not done")
	}

	root, u = installed(t, new([]string))
	os.Remove(filepath.Join(root, "etc/systemd/system/viiwork.service"))
	u.Running = func(context.Context) bool { return true }
	before := tree(t, root)
	if err := u.Survey(t.Context()).Remove(t.Context(), func(string, error) {}); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("got %v", err)
	}
	differ(t, tree(t, root), before)
}

func TestRecordedEnginesEndAndOthersDoNot(t *testing.T) {
	root, u := installed(t, new([]string))
	runner := native.New(native.Config{StateDir: filepath.Join(root, "var/lib/viiwork"), Node: "attic"})
	p, err := runner.Start(t.Context(), engine.Spec{Backend: "m#0", Model: engine.Model{Binary: "/bin/sh"}, Args: []string{"-c", "while :; do sleep 1; done"},
		Bind: func(string, int) []string { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.Background())
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	l := u.Survey(t.Context())
	if !slices.ContainsFunc(l.Goes, func(r setup.Removal) bool { return strings.Contains(r.What, "engine of m#0") }) {
		t.Errorf("the engine is not named: %v", l.Goes)
	}
	if err := l.Remove(t.Context(), said(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := other.Process.Signal(nilSignal); err != nil {
		t.Errorf("another process ended: %v", err)
	}
}

// TestAHalfWrittenFileOfANodeIsANodesOwn: one that runs is always writing something, and a kill leaves what it wrote.
func TestAHalfWrittenFileOfANodeIsANodesOwn(t *testing.T) {
	for file, goes := range map[string]bool{
		".meshlock.json-1523472186": true, ".rates-7": true, ".viiwork-doctor-7": true, ".mine-7": false, ".rates-mine": false, ".rates-7.txt": false,
	} {
		t.Run(file, func(t *testing.T) {
			root, u := installed(t, new([]string))
			u.Config.Node.StateDir = "/var/lib/state" // no folder of that name is taken for a node's whatever is in it
			state := filepath.Join(root, "var/lib/state")
			if err := errors.Join(os.Rename(filepath.Join(root, "var/lib/viiwork"), state), os.WriteFile(filepath.Join(state, file), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			u.Survey(t.Context()).Remove(t.Context(), said(t))
			if _, err := os.Stat(state); (err != nil) != goes {
				t.Errorf("gone: %v, %v", err != nil, u.Survey(t.Context()).Stays)
			}
		})
	}
}
