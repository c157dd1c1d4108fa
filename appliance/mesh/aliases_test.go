package mesh_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// kept is a table in dir as a node of id n1 has it after a start.
func kept(dir string, propose map[string]string) (*mesh.Aliases, *bytes.Buffer) {
	said := new(bytes.Buffer)
	a := mesh.NewAliases(mesh.AliasesConfig{Dir: dir, Propose: propose, Now: func() time.Time { return begun }, Log: slog.New(slog.NewTextHandler(said, nil))})
	a.Load()
	a.Join("n1")
	return a, said
}

// TestAliasesOutliveARestart, removed ones too, in a file of the owner's alone.
func TestAliasesOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	a, _ := kept(dir, nil)
	must(t)(a.Set("coder", "m1"))
	must(t)(a.Set("coder", "m2"))
	must(t)(a.Set("gone", "m1"))
	must(t)(a.Remove("gone"))
	a.Merge([]mesh.Alias{{Name: "theirs", Target: "m", Version: 4, Node: "n2", At: begun.UnixMilli()}})
	b, said := kept(dir, map[string]string{"late": "m"})
	if a.Digest() != b.Digest() || b.Targets()["coder"] != "m2" || b.Targets()["theirs"] != "m" || len(b.All()) != 3 {
		t.Errorf("%v\n%v", a.All(), b.All())
	}
	if before, err := b.Before("gone"); before != "m1" || err != nil {
		t.Errorf("%q %v", before, err)
	}
	if said.Len() > 0 {
		t.Errorf("said %s", said)
	}
	info, err := os.Stat(filepath.Join(dir, "aliases.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("left over: %v", files)
	}
}

// TestABrokenAliasFileIsPutAside: the node starts, says so, and takes from the others what it had.
func TestABrokenAliasFileIsPutAside(t *testing.T) {
	for name, content := range map[string]string{"cut": `{"aliases":[{"name":"co`, "empty": "", "another kind": "[]", "too large": strings.Repeat(" ", mesh.MaxAliasBytes+1)} {
		dir := t.TempDir()
		path := filepath.Join(dir, "aliases.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a, said := kept(dir, map[string]string{"coder": "m"})
		if aside, err := os.ReadFile(path + ".broken"); err != nil || string(aside) != content {
			t.Errorf("%s: %v", name, err)
		}
		if len(a.All()) != 0 || !strings.Contains(said.String(), "put aside") {
			t.Errorf("%s: %v, said %s", name, a.All(), said)
		}
		if w := a.Warnings(); len(w) != 1 || w[0].ID != "alias_file" || !strings.Contains(w[0].Fix, path) {
			t.Errorf("%s: %v", name, w)
		}
		must(t)(a.Set("coder", "m"))
		if again, _ := kept(dir, nil); again.Targets()["coder"] != "m" || len(again.Warnings()) != 0 {
			t.Errorf("%s: afterwards %v", name, again.All())
		}
	}
}

// TestAliasThatCannotBeStoredIsNotSet: what a node says is done must be there after a power cut.
func TestAliasThatCannotBeStoredIsNotSet(t *testing.T) {
	dir := t.TempDir()
	a, _ := kept(dir, nil)
	must(t)(a.Set("coder", "m1"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Set("coder", "m2"); err == nil || !strings.HasPrefix(err.Error(), "storing the aliases: ") {
		t.Errorf("set: %v", err)
	}
	if a.Targets()["coder"] != "m1" {
		t.Errorf("%v", a.Targets())
	}
}

// TestConfiguredAliasesAreProposedOnce: at the first start, and only where the mesh says nothing.
func TestConfiguredAliasesAreProposedOnce(t *testing.T) {
	dir := t.TempDir()
	a, _ := kept(dir, map[string]string{"coder": "m1", "small": "not-loaded-yet"})
	if a.Targets()["coder"] != "m1" || a.Targets()["small"] != "not-loaded-yet" {
		t.Errorf("%v", a.Targets())
	}
	for _, e := range a.All() {
		if e.Version != 0 {
			t.Errorf("%+v", e)
		}
	}
	a.Merge([]mesh.Alias{{Name: "coder", Target: "theirs", Version: 1, Node: "a", At: 1}, {Name: "small", Target: "theirs", Node: "a", At: 1}})
	if a.Targets()["coder"] != "theirs" || a.Targets()["small"] != "not-loaded-yet" { // of two proposals that of the greater id
		t.Errorf("%v", a.Targets())
	}
	must(t)(a.Remove("small"))
	b, _ := kept(dir, map[string]string{"small": "m2", "third": "m3"})
	if b.Targets()["small"] != "" || b.Targets()["third"] != "" {
		t.Errorf("proposed again: %v", b.Targets())
	}
}

// TestRevertLeadsWhereTheAliasLedBefore, and after a removal where it led then.
func TestRevertLeadsWhereTheAliasLedBefore(t *testing.T) {
	a, _ := kept("", nil)
	if _, err := a.Before("coder"); !errors.Is(err, mesh.ErrNoAlias) {
		t.Errorf("unknown: %v", err)
	}
	if e := must(t)(a.Set("coder", "m1")); e.Version != 1 || e.Prev != "" || e.Node != "n1" || e.At != begun.UnixMilli() {
		t.Errorf("%+v", e)
	}
	if _, err := a.Before("coder"); !errors.Is(err, mesh.ErrNoPrevious) {
		t.Errorf("nothing before: %v", err)
	}
	if e := must(t)(a.Set("coder", "m1")); e.Version != 1 {
		t.Errorf("the same again is a change: %+v", e)
	}
	must(t)(a.Set("coder", "m2"))
	revert := func(want, prev string, version uint64) {
		t.Helper()
		target, err := a.Before("coder")
		if err != nil {
			t.Fatal(err)
		}
		if e := must(t)(a.Set("coder", target)); e.Target != want || e.Prev != prev || e.Version != version || e.Deleted {
			t.Errorf("%+v", e)
		}
	}
	revert("m1", "m2", 3)
	revert("m2", "m1", 4)
	must(t)(a.Remove("coder"))
	if _, err := a.Remove("coder"); !errors.Is(err, mesh.ErrNoAlias) {
		t.Errorf("removed twice: %v", err)
	}
	revert("m2", "m1", 6)
	must(t)(a.Remove("coder"))
	if e := must(t)(a.Set("coder", "m3")); e.Prev != "m2" || e.Version != 8 {
		t.Errorf("%+v", e)
	}
}

func TestANodeWithoutAPlaceWritesNoAlias(t *testing.T) {
	a := mesh.NewAliases(mesh.AliasesConfig{})
	a.Load()
	if _, err := a.Set("coder", "m"); !errors.Is(err, mesh.ErrNoPlace) {
		t.Errorf("%v", err)
	}
}
