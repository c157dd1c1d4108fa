package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Apply puts the plan's files on disk. Where something of another content stands already, ask is called once with the
// whole difference; a no is ErrRefused. What is replaced is kept beside it as .bak-TIME.
//
// Everything is first written in full beside its place and forced to disk, so that a full disk or a missing right changes
// nothing; only then are the files renamed into place one by one, in the plan's order. A fault among those few renames
// takes back the ones before it. Power that fails between two of them leaves whole files, some old, some new.
func Apply(ctx context.Context, p Plan, ask func(diff string) bool) error {
	var diffs strings.Builder
	a := application{plan: p, stamp: time.Now().UTC().Format("20060102-150405")}
	for _, f := range p.Files {
		is, diff, err := p.Compare(f)
		if err != nil {
			return fmt.Errorf("preparing the files: %w", err)
		}
		diffs.WriteString(diff)
		if is != Same {
			a.changes = append(a.changes, &change{File: f, existed: is != Missing, losesText: diff != "", shown: diff})
		}
	}
	if diffs.Len() > 0 && !ask(diffs.String()) {
		return ErrRefused
	}
	err := a.stage(ctx)
	if err == nil {
		err = a.swap()
	}
	if err != nil {
		a.undo()
		if errors.Is(err, syscall.EROFS) {
			err = fmt.Errorf("%w: make it writable, or choose other places (--config, node.state_dir, service: none)", err)
		}
		return fmt.Errorf("%w: nothing was changed", err)
	}
	a.finish()
	return nil
}

// application is one run of Apply.
type application struct {
	plan    Plan
	stamp   string
	changes []*change
	made    []string // folders that were not there before
}

// change is one file on its way.
type change struct {
	File
	existed   bool
	losesText bool   // what stands there is somebody's text, and kept as a backup
	shown     string // the difference that was agreed to
	staged    string // the new one, in full, beside its place
	backup    string // what stood there
	placed    bool
}

// stage writes everything there is to write, under other names.
func (a *application) stage(ctx context.Context) error {
	for _, c := range a.changes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("writing the files: %w", err)
		}
		path := a.plan.at(c.Path)
		if c.IsDir() {
			if err := a.mkdir(path, c.File); err != nil {
				return fmt.Errorf("making %s: %w", c.Path, err)
			}
			continue
		}
		if err := a.mkdir(filepath.Dir(path), File{Mode: fs.ModeDir | 0o755}); err != nil {
			return fmt.Errorf("making the folder of %s: %w", c.Path, err)
		}
		if err := c.write(path); err != nil {
			return fmt.Errorf("writing %s: %w", c.Path, err)
		}
		if c.existed {
			if err := c.keepOld(path, a.stamp); err != nil {
				return fmt.Errorf("keeping the old %s: %w", c.Path, err)
			}
		}
	}
	return nil
}

// mkdir makes the folder and those above it, and remembers which were not there.
func (a *application) mkdir(path string, f File) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := a.mkdir(parent, File{Mode: fs.ModeDir | 0o755}); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, f.Mode.Perm()); err != nil {
		return err
	}
	a.made = append(a.made, path)
	if err := os.Chmod(path, f.Mode.Perm()); err != nil { // the umask may have taken from it
		return err
	}
	return own(path, f)
}

// own gives a path to its owner, where there is another than who runs this.
func own(path string, f File) error {
	if f.UID == 0 && f.GID == 0 || os.Getuid() != 0 {
		return nil
	}
	return os.Lchown(path, f.UID, f.GID)
}

// write makes the new file, whole and on disk, beside path.
func (c *change) write(path string) (err error) {
	for _, old := range leftovers(path) { // of a run that the power cut short
		_ = os.Remove(old)
	}
	c.staged, err = freeName(path)
	if err != nil {
		return err
	}
	if c.Link != "" {
		return os.Symlink(c.Link, c.staged)
	}
	f, err := os.OpenFile(c.staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // a secret is nobody's even for a moment
	if err != nil {
		return err
	}
	_, err = c.content(f)
	return errors.Join(err, f.Chmod(c.Mode.Perm()), f.Sync(), f.Close(), own(c.staged, c.File))
}

func (c *change) content(to io.Writer) (int64, error) {
	if c.From == "" {
		n, err := to.Write(c.Content)
		return int64(n), err
	}
	from, err := os.Open(c.From)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no ordinary file", c.From)
	}
	if err != nil {
		return 0, err
	}
	return io.Copy(to, from)
}

// freeName is a hidden name beside path that nothing has.
func freeName(path string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished(path)+"*")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(f.Close(), os.Remove(f.Name()))
}

// unfinished is how the name of a new file begins until it is in its place.
func unfinished(path string) string { return "." + filepath.Base(path) + ".new-" }

// leftovers are files that never came into their place.
func leftovers(path string) []string {
	entries, _ := os.ReadDir(filepath.Dir(path))
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished(path)) && !e.IsDir() {
			found = append(found, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return found
}

// keepOld gives what stands at path a second name: under the first there is always the old file or the new one.
func (c *change) keepOld(path, stamp string) error {
	name := path + ".bak-" + stamp
	if !c.losesText {
		var err error
		if name, err = freeName(path); err != nil { // for undo alone
			return err
		}
	}
	for n := 2; ; n++ {
		err := os.Link(path, name)
		if errors.Is(err, fs.ErrExist) && n < 100 {
			name = fmt.Sprintf("%s.bak-%s-%d", path, stamp, n)
			continue
		}
		if err == nil {
			c.backup = name
		}
		return err
	}
}

// swap renames the new files into place.
func (a *application) swap() error {
	rename := a.plan.rename
	if rename == nil {
		rename = os.Rename
	}
	for _, c := range a.changes {
		if c.staged == "" {
			continue
		}
		path := a.plan.at(c.Path)
		if err := a.asShown(c); err != nil {
			return err
		}
		if err := rename(c.staged, path); err != nil {
			return fmt.Errorf("putting %s into place: %w", c.Path, err)
		}
		c.placed = true
		if err := syncDir(filepath.Dir(path)); err != nil {
			return fmt.Errorf("putting %s into place: %w", c.Path, err)
		}
	}
	return nil
}

// asShown looks once more at what is to be replaced: an owner thinks for as long as an owner likes, and an editor or
// another run may have written there meanwhile.
func (a *application) asShown(c *change) error {
	is, diff, err := a.plan.Compare(c.File)
	if err != nil {
		return fmt.Errorf("putting %s into place: %w", c.Path, err)
	}
	if is == Same || c.existed == (is != Missing) && diff == c.shown {
		return nil
	}
	return fmt.Errorf("putting %s into place: it was changed by somebody else after the difference was shown: run this again", c.Path)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// undo takes back what was done, the last first.
func (a *application) undo() {
	for i := len(a.changes) - 1; i >= 0; i-- {
		c := a.changes[i]
		path := a.plan.at(c.Path)
		switch {
		case c.placed && c.backup != "":
			_ = os.Rename(c.backup, path)
		case c.placed:
			_ = os.Remove(path)
		default:
			if c.backup != "" {
				_ = os.Remove(c.backup)
			}
			if c.staged != "" {
				_ = os.Remove(c.staged)
			}
		}
	}
	for i := len(a.made) - 1; i >= 0; i-- {
		_ = os.Remove(a.made[i]) // only if it is empty
	}
}

// finish drops second names that were for undo alone: of programs and links there is nothing to look up.
func (a *application) finish() {
	for _, c := range a.changes {
		if c.backup != "" && !c.losesText {
			_ = os.Remove(c.backup)
		}
	}
}
