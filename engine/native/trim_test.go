package native_test

import (
	"os"
	"path/filepath"
	"testing"

	"viiwork/engine/native"
)

func TestLongLogIsCutUnderARunningEngine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	engine, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if err := native.TrimLog(path); err != nil {
		t.Fatal(err)
	}
	if err := engine.Truncate(native.LogLimit); err != nil { // a hole, not 50 MiB of disk
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if _, err := engine.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("last words\n")
	if err := native.TrimLog(path); err != nil {
		t.Fatal(err)
	}
	write("after\n")
	if text, err := os.ReadFile(path); err != nil || string(text) != "after\n" {
		t.Errorf("%d bytes after the cut, %v; want what was written since", len(text), err)
	}
	kept, err := os.ReadFile(path + ".1")
	if err != nil || len(kept) != 1<<20 || string(kept[len(kept)-11:]) != "last words\n" {
		t.Errorf("%d bytes kept, %v; want the end of the log", len(kept), err)
	}
}
