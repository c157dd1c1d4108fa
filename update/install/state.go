package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Bounds of what is read and kept.
const (
	maxState  = 256 << 10 // bytes
	maxBad    = 32        // versions that are remembered, the newest ones
	maxModels = 1000
	maxWhy    = 600 // bytes of a reason
)

// State is what is remembered of updates, in state.json: written by one version, read by its neighbours. Later versions
// may add fields; none changes what a field means.
type State struct {
	Trial *Trial   `json:"trial,omitempty"` // nil = none runs
	Bad   []Bad    `json:"bad,omitempty"`   // what was taken back: not installed again unless a person names it
	Last  *Outcome `json:"last,omitempty"`  // how the last trial ended
}

// Trial is a version that has to prove itself. All that must be known to take it back is written before the switch.
type Trial struct {
	Version  string    `json:"version"`  // its folder
	Says     string    `json:"says"`     // what it says of itself; "" = not known. A folder may have a name of its own
	Previous string    `json:"previous"` // the one to go back to, whose program judges
	Older    string    `json:"older"`    // what previous was before; "" = there was none
	Config   string    `json:"config"`   // of the node it is tried on: others of this machine do not count
	Since    time.Time `json:"since"`    // for people; nothing is decided by it
	Stage    Stage     `json:"stage"`
	Detail   string    `json:"detail,omitempty"` // of the stage, for people
	Failed   string    `json:"failed,omitempty"` // why it is being taken back
	Before   Before    `json:"before"`
	Patience int64     `json:"patience_s"` // until it must be as ready as before, and have answered

	Starts int    `json:"starts_left"`
	Start  string `json:"start,omitempty"` // the last one that was counted
	PID    int    `json:"pid,omitempty"`   // of the node that is started last, where it said so
	Boot   string `json:"boot,omitempty"`  // this machine's, at the first start that counted
	Ticks  int64  `json:"ticks,omitempty"` // seconds of that boot, then
}

// Before is how the node was before the switch.
type Before struct {
	PID      int            `json:"pid,omitempty"`      // 0 = none ran, or it has ended for sure
	Version  string         `json:"version,omitempty"`  // what it said of itself; "" = none ran
	Ready    map[string]int `json:"ready,omitempty"`    // backends of each model that served
	Answered []string       `json:"answered,omitempty"` // models that were asked and answered
}

// Stage is how far a trial is.
type Stage string

// The stages, in their order.
const (
	Switched  Stage = "switched"  // it is installed; the old one may still run
	Started   Stage = "started"   // it answers, and is not yet as ready as before
	Proving   Stage = "proving"   // its models are asked
	Watching  Stage = "watching"  // it is as good as the old one, and has to stay so
	Returning Stage = "returning" // it failed; the old one comes back
)

// Bad is a version that was taken back.
type Bad struct {
	Version string    `json:"version"`
	Why     string    `json:"why"`
	Time    time.Time `json:"time"`
}

// Outcome is how a trial ended.
type Outcome struct {
	Version string    `json:"version"`
	From    string    `json:"from"` // the one before, which runs again if it is not good
	Good    bool      `json:"good"`
	Why     string    `json:"why,omitempty"`   // it is not
	Fault   string    `json:"fault,omitempty"` // what is wrong even now that it was taken back
	Time    time.Time `json:"time"`
	Drain   float64   `json:"drain_s"` // seconds from the judge's start until the old node had ended
	Swap    float64   `json:"swap_s"`  // and from then until the new one answered
}

// State reads what is remembered; the zero State where nothing is.
func (v *Versions) State() (State, error) {
	s, err := v.read()
	if err != nil {
		return State{}, fmt.Errorf("reading what was installed: %s: %w: move the file away, then only the links rule", v.at(fileState), err)
	}
	return s, nil
}

func (v *Versions) read() (s State, err error) {
	f, err := openPlain(v.at(fileState), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err == nil && len(text) > maxState {
		err = fmt.Errorf("more than %d bytes", maxState)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, err
	}
	if err := s.check(); err != nil {
		return State{}, err
	}
	return s, nil
}

// check refuses what no version writes: names become paths, and figures become waits.
func (s *State) check() error {
	if len(s.Bad) > maxBad {
		return fmt.Errorf("%d versions that were taken back", len(s.Bad))
	}
	t := s.Trial
	if t == nil {
		return nil
	}
	switch {
	case !isFolderName(t.Version) || !isFolderName(t.Previous) || t.Version == t.Previous || t.Older != "" && !isFolderName(t.Older):
		return fmt.Errorf("a trial of %q after %q", t.Version, t.Previous)
	case t.Starts < 0 || t.Starts > starts || t.PID < 0 || t.Before.PID < 0:
		return fmt.Errorf("a trial with %d starts left", t.Starts)
	case t.Patience < 0 || t.Patience > int64(maxPatience/time.Second):
		return fmt.Errorf("a trial of %d s", t.Patience)
	case len(t.Before.Ready) > maxModels || len(t.Before.Answered) > maxModels:
		return fmt.Errorf("a trial with %d models", max(len(t.Before.Ready), len(t.Before.Answered)))
	}
	return nil
}

// change reads the state, lets act change it and stores it, while nobody else does.
func (v *Versions) change(act func(*State) error) error {
	return v.alone(func() error {
		s, err := v.State()
		if err != nil {
			return err
		}
		if err := act(&s); err != nil {
			return err
		}
		return v.store(s)
	})
}

func (v *Versions) store(s State) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = s.check() // what could not be read again would leave a trial without an end
	}
	if err == nil && len(text) >= maxState {
		err = fmt.Errorf("%d bytes", len(text))
	}
	if err != nil {
		return fmt.Errorf("writing what is installed: %w", err)
	}
	fresh := v.at(unfinished + fileState)
	err = writeWhole(fresh, append(text, '\n'), 0o644)
	if err == nil {
		err = os.Rename(fresh, v.at(fileState))
	}
	if err == nil {
		err = syncFolder(v.dir)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return fmt.Errorf("storing what is installed: %w", explain(err, v.dir))
	}
	return nil
}

// writeWhole writes a file and has it on disk when it returns.
func writeWhole(path string, text []byte, mode fs.FileMode) error {
	_ = os.Remove(path) // of a write that was cut off
	f, err := openPlain(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// takenBack tells when and why a version was taken back; nil = it never was.
func (s *State) takenBack(version string) *Bad {
	for i := range s.Bad {
		if s.Bad[i].Version == version {
			return &s.Bad[i]
		}
	}
	return nil
}

func (s *State) forgive(version string) {
	s.Bad = slices.DeleteFunc(s.Bad, func(b Bad) bool { return b.Version == version })
}

// blame remembers a version as bad and leaves its trial to be ended.
func (s *State) blame(why string) {
	t := s.Trial
	t.Failed, t.Stage, t.Detail = Clip(why), Returning, ""
	s.forgive(t.Version)
	s.Bad = append(s.Bad, Bad{t.Version, t.Failed, time.Now().UTC()})
	s.Bad = s.Bad[max(0, len(s.Bad)-maxBad):]
}

// Clip makes a reason of what a stranger, such as a program on trial, said: one line that drives no terminal, and no long one.
func Clip(why string) string {
	if why = printable(why); len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "…"
	}
	return why
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
}
