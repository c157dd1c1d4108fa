package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/update/install"
)

// boot is a start of the machine's node, as what starts it counts it.
func (w *world) boot(invocation string) string {
	w.t.Helper()
	back, err := w.open().Boot(install.Start{Config: config, Invocation: invocation})
	if err != nil {
		w.t.Fatal(err)
	}
	return back
}

func TestVersionThatIsStartedTooOftenIsTakenBackWithoutAJudge(t *testing.T) {
	w := newWorld(t)
	w.put("v1.2.2", script("v1.2.2", "good"))
	w.link("previous", "v1.2.2")
	w.install(newVersion, "good")
	for i := range install.Starts {
		for range 2 { // the manager's count and the node's own are of one start
			if back := w.boot(fmt.Sprint(i)); back != "" {
				t.Fatalf("start %d is one too many", i+1)
			}
		}
	}
	w.wantLinks(newVersion, oldVersion)
	if back := w.boot("last"); back != oldVersion {
		t.Fatalf("it goes back to %q", back)
	}
	w.wantLinks(oldVersion, "v1.2.2")
	s := w.read()
	if s.Trial != nil || s.Last == nil || s.Last.Good || s.Last.From != oldVersion || len(s.Bad) != 1 || s.Bad[0].Version != newVersion {
		t.Fatalf("%+v", s)
	}
	if back := w.boot("after"); back != "" {
		t.Fatalf("the old one is sent back to %q", back)
	}
}

func TestStartsOfAnotherNodeDoNotCount(t *testing.T) {
	w := newWorld(t)
	w.install(newVersion, "good")
	for i := range 9 {
		back, err := w.open().Boot(install.Start{Config: "/etc/viiwork/other.yaml", Invocation: fmt.Sprint(i)})
		if err != nil || back != "" {
			t.Fatalf("%q, %v", back, err)
		}
	}
	if trial := w.read().Trial; trial == nil || trial.Starts != install.Starts {
		t.Fatalf("%+v", trial)
	}
}

// TestClockThatIsWrongByYearsDecidesNothing has the state written at times that never were; only the time since the
// machine's start counts, and that starts anew with the machine.
func TestClockThatIsWrongByYearsDecidesNothing(t *testing.T) {
	for _, since := range []time.Time{{}, time.Unix(0, 0), time.Now().AddDate(-30, 0, 0), time.Now().AddDate(30, 0, 0)} {
		w := newWorld(t)
		w.install(newVersion, "good")
		if err := w.open().Change(func(s *install.State) { s.Trial.Since = since }); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"1", "2"} {
			if back := w.boot(id); back != "" {
				t.Fatalf("since %v: it goes back to %s", since, back)
			}
		}
		if trial := w.read().Trial; trial.Starts != install.Starts-2 {
			t.Fatalf("%+v", trial)
		}
	}
}

func TestVersionThatNobodyJudgesInTimeIsTakenBackAtTheNextStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*install.Trial)
		judged bool
		back   string
	}{
		"in time":          {func(tr *install.Trial) { tr.Ticks -= 30 }, false, ""},
		"late":             {func(tr *install.Trial) { tr.Ticks -= 60 + int64(install.GraceOfJudge/time.Second) + 1 }, false, oldVersion},
		"late, and judged": {func(tr *install.Trial) { tr.Ticks -= 1e6 }, true, ""},
		"another boot":     {func(tr *install.Trial) { tr.Ticks, tr.Boot = tr.Ticks-1e6, "another" }, false, ""},
		"from the future":  {func(tr *install.Trial) { tr.Ticks += 1e9 }, false, ""},
		"before its first": {func(tr *install.Trial) { tr.Ticks, tr.Boot, tr.Start, tr.Starts = 0, "", "", install.Starts }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.install(newVersion, "good")
			w.boot("1")
			if err := w.open().Change(func(s *install.State) { c.change(s.Trial) }); err != nil {
				t.Fatal(err)
			}
			if c.judged {
				release, err := w.open().Hold()
				if err != nil {
					t.Fatal(err)
				}
				defer release()
			}
			if back := w.boot("2"); back != c.back {
				t.Fatalf("it goes back to %q, want %q", back, c.back)
			}
		})
	}
}

func TestNewNodeThatStartsAfterTheVerdictIsSentBack(t *testing.T) {
	w := newWorld(t)
	w.install(newVersion, "good")
	if err := w.open().Stop("enough"); err != nil {
		t.Fatal(err)
	}
	release, err := w.open().Hold() // the judge has turned the links, and waits for the old one
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	w.link("current", oldVersion)
	for running, want := range map[string]string{newVersion: oldVersion, oldVersion: "", "": ""} {
		back, err := w.open().Boot(install.Start{Config: config, Invocation: running, Running: running, PID: 9})
		if err != nil || back != want {
			t.Errorf("%q is sent to %q, %v", running, back, err)
		}
	}
}

func TestDamagedStateKeepsNoNodeDownAndNoUpdateGoing(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", `{"trial":{"version":"../../etc","previous":"v1.2.3"}}`, `{"trial":{"version":"v1.2.4","previous":"v1.2.4"}}`,
		`{"trial":{"version":"v1.2.4","previous":"v1.2.3","starts_left":99}}`, `{"trial":{"version":"v1.2.4","previous":"v1.2.3","patience_s":1e18}}`,
		strings.Repeat(" ", 1<<20),
	} {
		w := newWorld(t)
		if err := os.WriteFile(filepath.Join(w.versions, "state.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.open().Boot(install.Start{Config: config}); err == nil || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%.40q: %v", text, err)
		}
		if err := w.open().Install(t.Context(), w.release(newVersion, script(newVersion, "good")), w.order()); err == nil {
			t.Errorf("%.40q was passed over", text)
		}
		w.wantLinks(oldVersion, oldVersion)
	}
}

// FuzzState reads what may lie in the file, and wants nothing out of it that leads elsewhere or lasts for ever.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"trial":{"version":"v1.2.4","previous":"v1.2.3","older":"v1.2.2","starts_left":3,"patience_s":900,"before":{"pid":7,"ready":{"a":1}}}}`))
	f.Add([]byte(`{"bad":[{"version":"v1.2.4","why":"x"}],"last":{"version":"v1.2.4","good":true}}`))
	f.Add([]byte(`{"trial":{"version":"..","previous":"/"}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, "state.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := install.Open(dir).State()
		if err != nil || s.Trial == nil {
			return
		}
		for _, name := range []string{s.Trial.Version, s.Trial.Previous, s.Trial.Older} {
			if name != "" && (filepath.Base(name) != name || strings.HasPrefix(name, ".") || name == "current" || name == "previous") {
				t.Errorf("%q is taken for a folder's name", name)
			}
		}
		if s.Trial.Starts > install.Starts || s.Trial.Starts < 0 || s.Trial.Patience > install.MaxPatience || s.Trial.Patience < 0 {
			t.Errorf("%+v", s.Trial)
		}
	})
}
