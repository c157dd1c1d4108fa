package swap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"viiwork/update/install"
)

// What follows the names of containers that are there during a swap.
const (
	nextEnd   = ".next"
	prevEnd   = ".prev"
	helperEnd = ".swap"
)

// Bounds of what is read and kept.
const (
	maxPlan     = 1 << 20 // bytes
	maxBad      = 32
	maxPatience = 24 * time.Hour
	helperRuns  = 20 // starts of the helper before it gives up on the new version
)

// Plan is a swap that was begun. All that must be known to go on, and back, is in it before anything is stopped.
type Plan struct {
	ID      string   `json:"id"`      // random; a label of what is made for it
	Version string   `json:"version"` // of the new image
	From    string   `json:"from"`    // of the old one
	Digest  string   `json:"digest"`  // of the release's index; "" = it is one that was here before
	Image   string   `json:"image"`   // Docker's id of the new one
	Content []string `json:"content"` // digests of its layers' archives, as they were proved
	Tag     string   `json:"tag"`     // a name that moves to the new image once it is good; "" = none

	Old      string `json:"old"`       // id of the container that is to be replaced
	OldImage string `json:"old_image"` // id
	Name     string `json:"name"`      // which both have in turn
	New      Box    `json:"new"`       // holds secrets of the node, as its environment does

	Socket   string         `json:"socket"` // of the node
	Node     string         `json:"node"`   // its name
	Before   install.Before `json:"before"`
	Patience int64          `json:"patience_s"`
	Watch    int64          `json:"watch_s"`
	Since    time.Time      `json:"since"` // for people

	Runs   int           `json:"runs_left"` // of the helper
	Stage  install.Stage `json:"stage"`
	Detail string        `json:"detail,omitempty"`
	Good   bool          `json:"good,omitempty"`   // it is decided: forward
	Failed string        `json:"failed,omitempty"` // it is decided: back, and why
	Drain  float64       `json:"drain_s,omitempty"`
	Ended  time.Time     `json:"ended,omitzero"`   // when the old one had; zero = it has not, or who saw it was killed
	Swap   float64       `json:"swap_s,omitempty"` // from then until the new one answered
}

// State is what is remembered of swaps.
type State struct {
	Last     *install.Outcome `json:"last,omitempty"`
	Bad      []install.Bad    `json:"bad,omitempty"`
	Previous *Kept            `json:"previous,omitempty"` // the image to go back to
}

// Kept is an image that stays in Docker.
type Kept struct {
	Version string `json:"version"`
	Image   string `json:"image"` // its id
}

// Folder is where a node's swaps are written down: a folder "swap" of its state directory, for its user alone.
type Folder struct{ dir string }

// At is the folder of a state directory.
func At(stateDir string) Folder { return Folder{filepath.Join(stateDir, "swap")} }

func (f Folder) at(name string) string { return filepath.Join(f.dir, name) }

// Plan is the swap that goes on; nil = none does.
func (f Folder) Plan() (*Plan, error) {
	var p Plan
	if err := f.read("plan.json", &p); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the plan of an update: %s: %w: move the file away, and look with 'docker ps -a' at which containers are there", f.at("plan.json"), err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("reading the plan of an update: %s: %w", f.at("plan.json"), err)
	}
	return &p, nil
}

// State is how earlier ones ended.
func (f Folder) State() (State, error) {
	var s State
	if err := f.read("state.json", &s); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return State{}, fmt.Errorf("reading how updates ended: %s: %w: move the file away", f.at("state.json"), err)
	}
	return s, nil
}

// check refuses what nobody writes here.
func (p *Plan) check() error {
	switch {
	case !isHex(p.ID, 32) || p.Name == "" || p.Old == "" || p.Image == "" || p.OldImage == "" || p.New.Image != p.Image || p.New.Labels[labelPlan] != p.ID:
		return errors.New("it is not whole")
	case p.Good && p.Failed != "":
		return errors.New("it is decided both ways")
	case p.Runs < 0 || p.Runs > helperRuns || p.Patience < 0 || p.Patience > int64(maxPatience/time.Second) || p.Watch < 0 || p.Watch > int64(maxPatience/time.Second):
		return errors.New("its figures are none that a plan has")
	}
	return nil
}

func isHex(text string, n int) bool {
	return len(text) == n && strings.Trim(text, "0123456789abcdef") == ""
}

func (f Folder) read(name string, into any) error {
	file, err := os.OpenFile(f.at(name), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if err != nil {
		return err
	}
	defer file.Close()
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is no plain file"))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxPlan+1))
	if err == nil && len(text) > maxPlan {
		err = fmt.Errorf("more than %d bytes", maxPlan)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// write leaves the old file or the new one, whatever happens.
func (f Folder) write(name string, from any) error {
	text, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return fmt.Errorf("storing %s: %w", f.at(name), err)
	}
	fresh := f.at(".new-" + name)
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("storing %s: %w", f.at(name), err)
	}
	_, err = file.Write(append(text, '\n'))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(fresh)
		return fmt.Errorf("storing %s: %w", f.at(name), err)
	}
	if err := os.Rename(fresh, f.at(name)); err != nil {
		return fmt.Errorf("storing %s: %w", f.at(name), err)
	}
	return f.sync()
}

func (f Folder) sync() error {
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// change reads the plan, lets act change it and stores it, while nobody else does. Without a plan it does nothing.
func (f Folder) change(act func(*Plan)) (*Plan, error) {
	lock, err := f.lock("plan.lock", unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer letGo(lock)
	p, err := f.Plan()
	if err != nil || p == nil {
		return nil, err
	}
	act(p)
	return p, f.write("plan.json", p)
}

// lock takes a lock, which ends with the process however that ends.
func (f Folder) lock(name string, how int) (*os.File, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("locking %s: %w", f.dir, err)
	}
	file, err := os.OpenFile(f.at(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(file.Fd()), how)
	}
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, fmt.Errorf("locking %s: %w", f.dir, err)
	}
	return file, nil
}

// letGo ends a lock by word: a process that is just being started has the open file, too, and would keep it locked until it
// has become another program.
func letGo(lock *os.File) {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	lock.Close()
}

// Stop has a swap go back whose version is on trial; ErrRefused where none is.
func (f Folder) Stop(why string) error {
	decided := true
	p, err := f.change(func(p *Plan) {
		if decided = p.Good; !p.Good && p.Failed == "" {
			p.Failed, p.Stage = install.Clip(why), install.Returning
		}
	})
	if err == nil && (p == nil || decided) {
		err = fmt.Errorf("taking back what is on trial: %w: nothing is", ErrRefused)
	}
	return err
}

// end writes down how a swap ended, and with that it is over.
func (f Folder) end(p *Plan, fault string) error {
	s, err := f.State()
	if err != nil {
		return err
	}
	s.Bad = slices.DeleteFunc(s.Bad, func(b install.Bad) bool { return b.Version == p.Version })
	if p.Good {
		s.Previous = &Kept{Version: p.From, Image: p.OldImage}
	} else {
		s.Bad = append(s.Bad, install.Bad{Version: p.Version, Why: p.Failed, Time: time.Now().UTC()})
		s.Bad = s.Bad[max(0, len(s.Bad)-maxBad):]
	}
	s.Last = &install.Outcome{
		Version: p.Version, From: p.From, Good: p.Good, Why: p.Failed, Fault: fault, Time: time.Now().UTC(), Drain: p.Drain, Swap: p.Swap,
	}
	if err := f.write("state.json", s); err != nil {
		return err
	}
	if err := os.Remove(f.at("plan.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ending the plan of an update: %w", err)
	}
	return f.sync()
}
