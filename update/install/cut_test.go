package install_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"viiwork/update/install"
)

// installAndDie is a process that installs and is killed after one step, as by power: nothing of it runs any more.
func installAndDie() {
	die := os.Getenv("INSTALL_TEST_STEP")
	root, err := os.ReadFile(os.Getenv("INSTALL_TEST_ROOT"))
	if err != nil {
		panic(err)
	}
	found, err := verified(os.Getenv("INSTALL_TEST_SOURCE"), root, newVersion)
	if err != nil {
		panic(err)
	}
	v := install.Open(os.Getenv("INSTALL_TEST_VERSIONS")).WithSteps(func(name string) {
		fmt.Println(name)
		if name == die {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	})
	order := install.Order{Config: config, StateDir: os.Getenv("INSTALL_TEST_STATE"), Environ: slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "INSTALL_TEST_ROLE=") })}
	if err := v.Install(context.Background(), found, order); err != nil {
		panic(err)
	}
}

// cut runs an installation in another process that is killed after a step; "" = it is not.
func (w *world) cut(step string) (steps []string) {
	w.t.Helper()
	root := filepath.Join(w.t.TempDir(), "trusted_root.json")
	if err := os.WriteFile(root, w.sig.Root(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "INSTALL_TEST_ROLE=install", "INSTALL_TEST_STEP="+step, "INSTALL_TEST_ROOT="+root,
		"INSTALL_TEST_SOURCE="+w.source, "INSTALL_TEST_VERSIONS="+w.versions, "INSTALL_TEST_STATE="+w.state)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var ended *exec.ExitError
	killed := errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if killed != (step != "") || err != nil && !killed {
		w.t.Fatalf("after %q: %v: %s", step, err, complaints.String())
	}
	return strings.Fields(out.String())
}

// TestInstallationThatIsKilledAfterAnyStepLeavesOneWorkingVersion kills it with SIGKILL, then starts as a machine does, and
// then installs again.
func TestInstallationThatIsKilledAfterAnyStepLeavesOneWorkingVersion(t *testing.T) {
	all := newWorld(t)
	all.publish(newVersion, map[string][]byte{platform: []byte(script(newVersion, "good"))})
	steps := all.cut("")
	if want := "made written checked renamed placed copied recorded previous switched"; strings.Join(steps, " ") != want {
		t.Fatalf("the steps are %v, not %s", steps, want)
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.put("v1.2.2", script("v1.2.2", "good"))
			w.link("previous", "v1.2.2")
			w.publish(newVersion, map[string][]byte{platform: []byte(script(newVersion, "good"))})
			w.cut(step)
			want := oldVersion
			if step == "switched" {
				want = newVersion
			}
			w.wantWorks(want)
			back, err := w.open().Boot(install.Start{Config: config, Invocation: "1"})
			if err != nil || back != "" {
				t.Fatalf("the start after it: %q, %v", back, err)
			}
			w.wantWorks(want)
			if step == "switched" {
				w.wantLinks(newVersion, oldVersion)
			} else {
				w.wantLinks(oldVersion, "v1.2.2") // it is still there to go back to
			}
			trial := w.read().Trial
			if (trial != nil) != (step == "switched") {
				t.Fatalf("on trial is %+v", trial)
			}
			if trial != nil {
				return
			}
			if err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), w.order()); err != nil {
				t.Fatalf("the next update: %v", err)
			}
			w.wantLinks(newVersion, oldVersion)
			w.wantNothingLeft(newVersion, "v1.2.2")
		})
	}
}

// wantWorks wants current to lead to a program that runs and is this version, and previous to one that runs.
func (w *world) wantWorks(version string) {
	w.t.Helper()
	for link, want := range map[string]string{"current": version, "previous": ""} {
		out, err := exec.Command(filepath.Join(w.versions, link, "viiwork"), "version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			w.t.Fatalf("%s: %s: %v; want %s", link, out, err, want)
		}
	}
}

// TestTakingBackThatIsCutOffIsFinishedByTheNextStart cuts between the verdict and the links.
func TestTakingBackThatIsCutOffIsFinishedByTheNextStart(t *testing.T) {
	w := newWorld(t)
	w.install(newVersion, "good")
	if err := w.open().Stop("a person took it back"); err != nil {
		t.Fatal(err)
	}
	back, err := w.open().Boot(install.Start{Config: config, Invocation: "1"})
	if err != nil || back != oldVersion {
		t.Fatalf("%q, %v", back, err)
	}
	w.wantLinks(oldVersion, oldVersion)
	if s := w.read(); s.Trial != nil || s.Last == nil || s.Last.Good || len(s.Bad) != 1 {
		t.Fatalf("%+v", s)
	}
}

// TestUpdateAfterOneThatWasCutOffWaitsForNoStart: the node ran all the time, and nothing was tried.
func TestUpdateAfterOneThatWasCutOffWaitsForNoStart(t *testing.T) {
	for _, step := range []string{"recorded", "previous"} {
		for name, act := range map[string]func(*world) error{
			"update": func(w *world) error {
				return w.open().Install(t.Context(), w.release("v1.2.5", script("v1.2.5", "good")), w.order())
			},
			"rollback": func(w *world) error { return w.open().Back(t.Context(), w.order()) },
		} {
			t.Run(step+" "+name, func(t *testing.T) {
				w := newWorld(t)
				w.put("v1.2.2", script("v1.2.2", "good"))
				w.link("previous", "v1.2.2")
				w.publish(newVersion, map[string][]byte{platform: []byte(script(newVersion, "good"))})
				w.cut(step)
				if err := act(w); err != nil {
					t.Fatal(err)
				}
				trial := w.read().Trial
				if trial == nil || trial.Older != "v1.2.2" || trial.Previous != oldVersion {
					t.Fatalf("%+v", trial)
				}
				w.wantLinks(trial.Version, oldVersion)
			})
		}
	}
}
