package appliance_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestCachesOfEarlierRunsGoOnceTheyAreSwitchedOff: nobody would delete them any more when their time has come.
func TestCachesOfEarlierRunsGoOnceTheyAreSwitchedOff(t *testing.T) {
	for mode, kept := range map[string]bool{"off": false, "pull": true} {
		f := lanFellow(t, 0)
		f.more = "kv_share: {mode: " + mode + "}\n"
		dir := filepath.Join(f.dir, "state", "kv")
		packs := filepath.Join(dir, "store", "packs")
		if err := os.MkdirAll(packs, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := f.here(t)(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) == kept {
			t.Errorf("with mode %s: %v", mode, err)
		}
	}
}
