package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrUnmanaged is wrapped by Find for a program that does not lie in a folder of versions. Its message says whose it is
// and what to do.
var ErrUnmanaged = errors.New("this program cannot replace itself")

// Run runs a program of the machine and returns what it printed.
type Run func(ctx context.Context, name string, args ...string) (string, error)

// askPatience is for a question to a package manager.
const askPatience = 20 * time.Second

// Find finds the folder of versions that a running program lies in. One that another tool put there is that tool's to
// replace: overwritten, it would come back at the tool's next run.
func Find(ctx context.Context, running string, run Run) (*Versions, error) {
	if v, _ := Of(running); v != nil {
		return v, nil
	}
	path, err := filepath.EvalSymlinks(running)
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if how := owner(ctx, path, run); how != "" {
		return nil, fmt.Errorf("%w: a package manager put %s there: run '%s'", ErrUnmanaged, path, how)
	}
	return nil, fmt.Errorf("%w: %s does not lie in a folder of versions: run 'viiwork init', which makes one, or install by hand as docs/updates.md says", ErrUnmanaged, path)
}

// Of is the folder of versions that a program lies in, and which of them it is; nil = it lies elsewhere.
func Of(running string) (v *Versions, version string) {
	path, err := filepath.EvalSymlinks(running)
	if err != nil {
		return nil, ""
	}
	folder := filepath.Dir(path)
	v, version = Open(filepath.Dir(folder)), filepath.Base(folder)
	if filepath.Base(path) != program || filepath.Base(v.dir) != "versions" || !isFolderName(version) {
		return nil, ""
	}
	if _, err := v.Current(); err != nil {
		return nil, ""
	}
	return v, version
}

// owner is the command by which the package manager that owns path updates it, "" where none does.
func owner(ctx context.Context, path string, run Run) string {
	if strings.Contains(path, "/Cellar/") {
		return "brew upgrade " + plainWord(after(path, "/Cellar/"))
	}
	for _, m := range []struct {
		ask []string
		cut string // what follows the package's name in the answer
		how string
	}{
		{[]string{"dpkg", "-S", path}, ":", "sudo apt-get install --only-upgrade "},
		{[]string{"rpm", "-qf", "--queryformat", "%{NAME}\n", path}, "\n", "sudo dnf upgrade "},
	} {
		out, err := run(ctx, m.ask[0], m.ask[1:]...)
		name, _, _ := strings.Cut(strings.TrimSpace(out), m.cut)
		if err == nil && plainWord(name) != "" {
			return m.how + plainWord(name)
		}
	}
	return ""
}

func after(path, mark string) string {
	_, rest, _ := strings.Cut(path, mark)
	name, _, _ := strings.Cut(rest, string(os.PathSeparator))
	return name
}

// plainWord is a package's name, or "": it is shown as part of a command that somebody may paste.
func plainWord(name string) string {
	if !folderName.MatchString(name) {
		return ""
	}
	return name
}
