package appliance_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"viiwork/appliance"
)

const gib = 1 << 30

// roomyPlace is a machine with room in memory.
func roomyPlace(t *testing.T) appliance.SpoolPlace {
	t.Helper()
	p := appliance.SpoolPlace{State: filepath.Join(t.TempDir(), "state"), Shm: t.TempDir(), Boot: "boot-1", Free: 8 * gib, Memory: 32 * gib}
	if err := os.Mkdir(p.State, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func opened(t *testing.T, p appliance.SpoolPlace) appliance.Spool {
	t.Helper()
	s := appliance.PickSpool(p)
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	return s
}

func inMemory(s appliance.Spool, p appliance.SpoolPlace) bool { return filepath.Dir(s.Dir()) == p.Shm }

func TestTheSpoolIsInMemoryWhereThereIsRoom(t *testing.T) {
	p := roomyPlace(t)
	s := opened(t, p)
	info, err := os.Lstat(s.Dir())
	if !inMemory(s, p) || err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Fatalf("slot files go to %s: %v, %v; want a folder of 0700 in %s", s.Dir(), info.Mode(), err, p.Shm)
	}
	other := p
	other.State = t.TempDir()
	if at := appliance.PickSpool(other).Dir(); at == s.Dir() || !strings.HasPrefix(at, p.Shm) {
		t.Errorf("another node of this user shares the folder %s", at)
	}
	for name, change := range map[string]func(*appliance.SpoolPlace){
		"little room":        func(p *appliance.SpoolPlace) { p.Free = 3 * gib },
		"a large machine":    func(p *appliance.SpoolPlace) { p.Memory = 512 * gib },
		"no such place":      func(p *appliance.SpoolPlace) { p.Shm = "" },
		"nothing to be kept": func(p *appliance.SpoolPlace) { p.Off = true },
	} {
		p := roomyPlace(t)
		change(&p)
		if s := opened(t, p); s.Dir() != p.State {
			t.Errorf("%s: slot files go to %s, want the state directory", name, s.Dir())
		}
	}
}

// TestTheSpoolStaysWhileEnginesMayUseIt: an engine that outlives the node was started with the path of its folder.
func TestTheSpoolStaysWhileEnginesMayUseIt(t *testing.T) {
	p := roomyPlace(t)
	first := opened(t, p)
	first.Close(true)
	full := p
	full.Free, full.Off = 1*gib, true
	if s := opened(t, full); s.Dir() != first.Dir() {
		t.Errorf("it went from memory to %s while engines ran on", s.Dir())
	}
	first.Close(false)
	if s := appliance.PickSpool(full); s.Dir() != p.State {
		t.Errorf("it is still %s though no engine was left", s.Dir())
	}

	p = roomyPlace(t)
	full = p
	full.Free = 1 * gib
	first = opened(t, full)
	first.Close(true)
	if s := opened(t, p); s.Dir() != p.State {
		t.Errorf("it went from the disk to %s while engines ran on", s.Dir())
	}
	p.Boot = "boot-2"
	if s := appliance.PickSpool(p); !inMemory(s, p) {
		t.Errorf("it is still %s though the machine has started anew", s.Dir())
	}
}

// TestAPipeForTheSpoolsChoiceHoldsNobodyUp, and is replaced by a file.
func TestAPipeForTheSpoolsChoiceHoldsNobodyUp(t *testing.T) {
	p := roomyPlace(t)
	file := filepath.Join(p.State, "spool")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	s := opened(t, p)
	if info, err := os.Lstat(file); !inMemory(s, p) || err != nil || !info.Mode().IsRegular() {
		t.Errorf("slot files go to %s: %v, %v", s.Dir(), info, err)
	}
}

func TestNothingIsLeftInMemoryAfterTheLastEngine(t *testing.T) {
	p := roomyPlace(t)
	s := opened(t, p)
	file := filepath.Join(s.Dir(), "slots", "m", "a.kv")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("what people wrote"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Close(true)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("an engine runs on and its folder is gone: %v", err)
	}
	s.Close(false)
	left, _ := filepath.Glob(filepath.Join(p.Shm, "*"))
	if more, _ := filepath.Glob(filepath.Join(p.State, "*")); len(left)+len(more) != 0 {
		t.Errorf("left behind: %q %q", left, more)
	}
}

func TestAFolderOfSomebodyElseIsNoSpool(t *testing.T) {
	for name, squat := range map[string]func(dir string) error{
		"a link": func(dir string) error {
			elsewhere := t.TempDir()
			if err := os.Chmod(elsewhere, 0o700); err != nil {
				return err
			}
			return os.Symlink(elsewhere, dir)
		},
		"open to others": func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chmod(dir, 0o777)
		},
		"a file": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		p := roomyPlace(t)
		early := appliance.PickSpool(p)
		if err := squat(early.Dir()); err != nil {
			t.Fatal(err)
		}
		if s := opened(t, p); s.Dir() != p.State {
			t.Errorf("%s: slot files go to %s", name, s.Dir())
		}
		// One that comes in the way after the choice.
		if err := early.Open(); err == nil || !strings.Contains(err.Error(), early.Dir()) {
			t.Errorf("%s: it was taken for ours: %v", name, err)
		}
	}
}
