package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"viiwork/update"
)

// ErrRefused is wrapped where a version is not installed for a reason that a person may overrule by naming it.
var ErrRefused = errors.New("not installed")

// Order is what an update is to be. A zero field has the meaning that is named.
type Order struct {
	Config   string        // the node's viiwork.yaml, which the new program has to take, and by which a trial knows its node; "" = none
	StateDir string        // the node's; its small files are copied before the switch. "" = nothing is
	Named    bool          // a person named the version: one that was taken back is tried again
	Patience time.Duration // until the new version must be as ready as the old one was; 0 = 15 min
	Environ  []string      // of the new program while it is asked; nil = this process's

	Before func(context.Context) Before // looks at the node, just before the switch; nil = none runs
	Said   func(Progress)               // told how far it is, many times; nil = nobody is
}

// Progress is how far an installation is.
type Progress struct {
	Act   Act
	Bytes int64 // of the program, while it is fetched
	Size  int64 // 0 = not known yet
}

// Act is a part of an installation.
type Act string

// The acts, in their order.
const (
	Fetching Act = "fetching" // the program, into its place
	Checking Act = "checking" // it says what it is, and takes the configuration
	Looking  Act = "looking"  // how the node is now
	Turning  Act = "turning"  // the links
)

const (
	starts          = 3 // starts that a version on trial has
	defaultPatience = 15 * time.Minute
	maxPatience     = 24 * time.Hour
)

// Install puts a release beside the other versions, tries what can be tried without starting it, and switches: the next
// start of the node runs it, on trial. It starts and ends nothing. An error means that nothing has changed, but for a
// program that may lie in its folder without being used.
func (v *Versions) Install(ctx context.Context, r *update.Verified, o Order) error {
	if r == nil {
		return errors.New("installing: nothing was verified")
	}
	unlock, err := v.begin(&o, "installing "+r.Version())
	if err != nil {
		return err
	}
	defer unlock()
	if err := v.admit(r.Version(), o.Named); err != nil {
		return err
	}
	v.sweep()
	o.say(Progress{Act: Fetching})
	fresh, err := v.fetch(ctx, r, o)
	if err != nil {
		return fmt.Errorf("installing %s: %w", r.Version(), err)
	}
	defer os.RemoveAll(filepath.Dir(fresh))
	o.say(Progress{Act: Checking})
	says, err := v.try(ctx, fresh, r.Version(), o)
	if err != nil {
		return fmt.Errorf("trying %s before it is installed: %w", r.Version(), err)
	}
	if err := v.place(fresh, r.Version()); err != nil {
		return fmt.Errorf("installing %s: %w", r.Version(), explain(err, v.dir))
	}
	return v.enter(ctx, entry{r.Version(), says}, o)
}

// Back switches to the previous version, or ends a trial that runs. The way back is a trial as well.
func (v *Versions) Back(ctx context.Context, o Order) error {
	unlock, err := v.begin(&o, "going back")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := v.settle(); err != nil {
		return err
	}
	to, err := v.Previous()
	if err != nil {
		return err
	}
	if to != "" {
		if _, err := os.Stat(v.Program(to)); errors.Is(err, fs.ErrNotExist) {
			to = "" // the link leads to what is gone
		}
	}
	is, err := v.Current()
	if err != nil {
		return err
	}
	if to == "" || to == is {
		return fmt.Errorf("going back: %w: there is no other version here than %s: 'viiwork update --to VERSION --allow-downgrade' fetches one", ErrRefused, is)
	}
	if err := v.admit(to, true); err != nil {
		return err
	}
	o.say(Progress{Act: Checking})
	says, err := v.try(ctx, v.Program(to), "", o)
	if err != nil {
		return fmt.Errorf("trying %s before going back to it: %w", to, err)
	}
	return v.enter(ctx, entry{to, says}, o)
}

// Stop takes a version back whose trial runs; ErrRefused where none does. The judge does the rest.
func (v *Versions) Stop(why string) error {
	return v.change(func(s *State) error {
		if s.Trial == nil {
			return fmt.Errorf("taking back what is on trial: %w: nothing is", ErrRefused)
		}
		if s.Trial.Failed == "" {
			s.blame(why)
		}
		return nil
	})
}

// begin fills in what o leaves open and makes sure that nobody else updates.
func (v *Versions) begin(o *Order, what string) (unlock func(), err error) {
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	o.Patience = min(o.Patience, maxPatience)
	stat, err := os.Stat(v.dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if sys, ok := stat.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s: %s belongs to user %d: run this as that user", what, v.dir, sys.Uid)
	}
	if stat.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s: others than its owner may write in %s (%v), and so decide what runs: look what lies there, then run 'chmod go-w %s'", what, v.dir, stat.Mode(), v.dir)
	}
	return v.lock(fileLock, what)
}

func (o Order) say(p Progress) {
	if o.Said != nil {
		o.Said(p)
	}
}

// admit says whether a version may be installed now. Who calls it holds the lock of updates: a trial that was never begun
// is of an update that was cut off.
func (v *Versions) admit(version string, named bool) error {
	s, err := v.settle()
	if err != nil {
		return err
	}
	if !isFolderName(version) {
		return fmt.Errorf("%q cannot be a folder's name", version)
	}
	if t := s.Trial; t != nil {
		return fmt.Errorf("%w: %s is on trial since %s: wait for its end ('viiwork status' tells), or take it back with 'viiwork update --rollback'",
			ErrBusy, t.Version, t.Since.Local().Format(time.DateTime))
	}
	if b := s.takenBack(version); b != nil && !named {
		return fmt.Errorf("%w: %s was taken back on %s: %s: 'viiwork update --to %s' tries it again",
			ErrRefused, version, b.Time.Local().Format(time.DateTime), b.Why, version)
	}
	is, err := v.Current()
	if err == nil && is == version {
		err = fmt.Errorf("%w: %s is installed already", ErrRefused, version)
	}
	return err
}

// settle ends a trial that was cut off before the switch, and returns what is so now.
func (v *Versions) settle() (is State, err error) {
	if is, err = v.State(); err != nil || is.Trial == nil {
		return is, err
	}
	err = v.change(func(s *State) error {
		current, err := v.Current()
		if err == nil && s.Trial != nil && s.Trial.Failed == "" && s.Trial.Version != current {
			v.abandon(s, current)
		}
		is = *s
		return err
	})
	return is, err
}

// abandon forgets a trial that was not begun, and has previous lead to where it led before.
func (v *Versions) abandon(s *State, current string) {
	if t := s.Trial; t.Older != "" && current == t.Previous {
		_ = v.turn(linkPrevious, t.Older) // where it has gone meanwhile, previous leads to what runs
	}
	s.Trial = nil
}

// fetch writes the program of this platform into a folder of its own, whole and on disk.
func (v *Versions) fetch(ctx context.Context, r *update.Verified, o Order) (path string, err error) {
	dir, err := os.MkdirTemp(v.dir, unfinished)
	if err != nil {
		return "", explain(err, v.dir)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	v.done("made")
	path = filepath.Join(dir, program)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", explain(err, v.dir)
	}
	to := &metered{to: bufio.NewWriterSize(f, 1<<20), said: o.say}
	_, err = r.Program(ctx, runtime.GOOS+"/"+runtime.GOARCH, to)
	err = errors.Join(err, to.to.Flush(), f.Chmod(0o755), f.Sync(), f.Close())
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), syncFolder(dir), syncFolder(v.dir))
	}
	if err != nil {
		return "", explain(err, v.dir)
	}
	v.done("written")
	return path, nil
}

// metered tells how much was written.
type metered struct {
	to   *bufio.Writer
	said func(Progress)
	at   Progress
}

// Expect is told the program's size before it comes.
func (m *metered) Expect(size int64) { m.at = Progress{Act: Fetching, Size: size} }

func (m *metered) Write(p []byte) (int, error) {
	n, err := m.to.Write(p)
	m.at.Act, m.at.Bytes = Fetching, m.at.Bytes+int64(n)
	m.said(m.at)
	return n, err
}

// place moves a program into its version's folder. One that lies there already, of an earlier try, is replaced in one act;
// what runs of it goes on.
func (v *Versions) place(fresh, version string) error {
	dir := filepath.Join(v.dir, version)
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Rename(fresh, filepath.Join(dir, program)))
	}
	if err != nil {
		return err
	}
	v.done("renamed")
	if err := errors.Join(syncFolder(dir), syncFolder(v.dir)); err != nil {
		return err
	}
	v.done("placed")
	return nil
}

// entry is a version that lies in its folder and has been tried.
type entry struct{ version, says string }

// enter records the trial, then turns the links: previous first, so that there is always somewhere to go back to.
func (v *Versions) enter(ctx context.Context, to entry, o Order) error {
	from, err := v.Current()
	if err != nil {
		return err
	}
	older, err := v.Previous()
	if err != nil {
		return err
	}
	if err := v.snapshot(o.StateDir, from); err != nil {
		return err
	}
	o.say(Progress{Act: Looking})
	t := &Trial{
		Version: to.version, Says: to.says, Previous: from, Older: older, Config: o.Config, Since: time.Now().UTC(), Stage: Switched,
		Patience: int64(o.Patience / time.Second), Starts: starts,
	}
	if o.Before != nil {
		t.Before = o.Before(ctx)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("installing %s: %w", to.version, err)
	}
	o.say(Progress{Act: Turning})
	return v.alone(func() error {
		s, err := v.State()
		if err != nil {
			return err
		}
		if s.Trial != nil {
			return fmt.Errorf("%w: %s is on trial", ErrBusy, s.Trial.Version)
		}
		s.Trial = t
		if err := v.store(s); err != nil {
			return err
		}
		v.done("recorded")
		err = v.turn(linkPrevious, from)
		if err == nil {
			v.done("previous")
			err = v.turn(linkCurrent, to.version)
		}
		if err != nil {
			v.abandon(&s, from)
			return errors.Join(err, v.store(s))
		}
		v.done("switched")
		return nil
	})
}

// explain adds the way out to what a disk answers.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room on the disk of %s and try again: nothing was changed", err, dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: run this as the user that owns %s", err, dir)
	}
	return err
}
