package install_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"viiwork/update/install"
)

// strange is what may lie where a file of ours should.
var strange = map[string]func(path, victim string) error{
	"pipe":   func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"link":   func(path, victim string) error { return os.Symlink(victim, path) },
	"folder": func(path, _ string) error { return os.Mkdir(path, 0o700) },
}

// TestWhatIsNoFileHoldsNoStartAndNoUpdateUp, and nothing is written through it.
func TestWhatIsNoFileHoldsNoStartAndNoUpdateUp(t *testing.T) {
	for _, name := range []string{"state.json", "state.lock", "lock", "judge", "judge.log"} {
		for kind, lay := range strange {
			t.Run(name+" is a "+kind, func(t *testing.T) {
				w := newWorld(t)
				victim := filepath.Join(t.TempDir(), "victim")
				if err := os.WriteFile(victim, []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := lay(filepath.Join(w.versions, name), victim); err != nil {
					t.Fatal(err)
				}
				err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), w.order())
				if concerned := name != "judge" && name != "judge.log"; concerned != (err != nil) {
					t.Errorf("installing: %v", err)
				}
				_, _ = w.open().Boot(install.Start{Config: config, Invocation: "1"})
				switch name {
				case "judge.log":
					if err := w.open().StartJudge(nil, "version"); err == nil {
						t.Error("the judge's words go elsewhere")
					}
				case "judge":
					if _, err := w.open().Hold(); err == nil {
						t.Error("a judge took a lock that is none")
					}
				}
				if text, err := os.ReadFile(victim); err != nil || string(text) != "{}" {
					t.Errorf("the file it leads to holds %q, %v", text, err)
				}
			})
		}
	}
}

// TestHalfWrittenStateIsNoWayElsewhere: what a write that was cut off has left may be anything.
func TestHalfWrittenStateIsNoWayElsewhere(t *testing.T) {
	w := newWorld(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.link(".new-state.json", victim)
	w.install(newVersion, "good")
	if text, _ := os.ReadFile(victim); string(text) != "theirs" || w.read().Trial == nil {
		t.Fatalf("%q", text)
	}
}

func TestFolderThatOthersMayWriteInIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o775, 0o757, 0o777 | os.ModeSticky} {
		w := newWorld(t)
		if err := os.Chmod(w.versions, mode); err != nil {
			t.Fatal(err)
		}
		err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), w.order())
		if err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("%v: %v", mode, err)
		}
		if err := w.open().Back(t.Context(), w.order()); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("%v: %v", mode, err)
		}
		w.wantLinks(oldVersion, oldVersion)
	}
}

// TestNoOtherUserHoldsUpAVerdict: whoever may read the folder can lock it, and whatever else they can open.
func TestNoOtherUserHoldsUpAVerdict(t *testing.T) {
	w := newWorld(t)
	w.install(newVersion, "good")
	entries, err := os.ReadDir(w.versions)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append([]string{""}, names(entries)...) {
		path = filepath.Join(w.versions, path)
		stat, err := os.Lstat(path)
		if err != nil || stat.Mode().Perm()&0o044 == 0 || stat.Mode()&os.ModeSymlink != 0 {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.open().Stop("a person took it back"); err != nil {
		t.Fatal(err)
	}
	if back := w.boot("1"); back != oldVersion {
		t.Fatalf("it goes back to %q", back)
	}
}

func names(entries []os.DirEntry) (all []string) {
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestTrialThatCouldNotBeReadAgainIsNotBegun: nobody could end it.
func TestTrialThatCouldNotBeReadAgainIsNotBegun(t *testing.T) {
	for name, before := range map[string]func(*install.Before){
		"many models": func(b *install.Before) {
			for i := range 1001 {
				b.Ready[fmt.Sprint(i)] = 1
			}
		},
		"long names": func(b *install.Before) {
			for i := range 900 {
				b.Ready[strings.Repeat("x", 500)+fmt.Sprint(i)] = 1
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := w.order()
			b := install.Before{Ready: map[string]int{}}
			before(&b)
			o.Before = func(context.Context) install.Before { return b }
			if err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), o); err == nil {
				t.Error("it was begun")
			}
			w.wantLinks(oldVersion, oldVersion)
			if w.read().Trial != nil {
				t.Error("something is on trial")
			}
		})
	}
}
