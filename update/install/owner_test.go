package install_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/update/install"
)

func TestProgramOfAPackageManagerSaysItsCommand(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, answers, by, says string
	}{
		"dpkg":     {"usr/bin/viiwork", "viiwork: /usr/bin/viiwork\n", "dpkg", "'sudo apt-get install --only-upgrade viiwork'"},
		"rpm":      {"usr/bin/viiwork", "viiwork\n", "rpm", "'sudo dnf upgrade viiwork'"},
		"brew":     {"opt/homebrew/Cellar/viiwork/1.2.3/bin/viiwork", "", "", "'brew upgrade viiwork'"},
		"a trick":  {"usr/bin/viiwork", "x; rm -rf /: /usr/bin/viiwork\n", "dpkg", "viiwork init"},
		"nobody":   {"usr/local/bin/viiwork", "", "", "viiwork init"},
		"no links": {"opt/viiwork/versions/v1.2.3/viiwork", "", "", "viiwork init"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name, c.path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
				t.Fatal(err)
			}
			_, err := install.Find(t.Context(), path, func(_ context.Context, name string, _ ...string) (string, error) {
				if name != c.by {
					return "", errors.New("there is no such program")
				}
				return c.answers, nil
			})
			if !errors.Is(err, install.ErrUnmanaged) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestProgramInAFolderOfVersionsFindsItByEachOfItsNames(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"v1.2.3", "current", "previous"} {
		v, is := install.Of(filepath.Join(w.versions, path, "viiwork"))
		if v == nil || is != oldVersion {
			t.Errorf("%s: %v %q", path, v, is)
		}
	}
}

func TestLinkOutOfTheFolderIsNoVersion(t *testing.T) {
	for _, to := range []string{"/bin", "../elsewhere", ".", "..", "current", "v1.2.3/deeper", ""} {
		w := newWorld(t)
		if to != "" {
			w.link("current", to)
		} else if err := os.Remove(filepath.Join(w.versions, "current")); err != nil {
			t.Fatal(err)
		}
		if is, err := w.open().Current(); err == nil {
			t.Errorf("%q was taken for the version %q", to, is)
		}
	}
}
