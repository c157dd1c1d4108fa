package install

import (
	"fmt"
	"time"
)

// Start is a start of a node.
type Start struct {
	Config     string // the node's viiwork.yaml
	Invocation string // what tells this start from others, however often it is counted: systemd's INVOCATION_ID
	Running    string // the folder of the version that counts its own start, and
	PID        int    // its process; both empty where another program counts it
}

// Boot counts a start while a version is on trial. Where that has used up its starts, or its time while no judge was
// there, current is turned back. back names the version to be started in place of the one that was turned away, or that is
// counting itself. Whatever else was cut off is put in order. It is asked before each start, best by the previous version's
// program, since the newest one may not get so far.
func (v *Versions) Boot(s Start) (back string, err error) {
	if is, err := v.State(); err == nil && is.Trial == nil { // the usual start takes no lock: it may be that of another user
		return "", nil
	}
	err = v.alone(func() error {
		is, err := v.State()
		if err != nil {
			return err
		}
		if is.Trial == nil || is.Trial.Config != s.Config {
			return nil
		}
		back, err = v.count(&is, s)
		if err != nil {
			return err
		}
		return v.store(is)
	})
	if err != nil {
		return "", fmt.Errorf("counting this start: %w", err)
	}
	return back, nil
}

func (v *Versions) count(is *State, s Start) (back string, err error) {
	t := is.Trial
	current, err := v.Current()
	if err != nil {
		return "", err
	}
	if t.Failed == "" && current != t.Version {
		if !v.held(fileLock) { // cut off before the switch: nothing is on trial
			v.abandon(is, current)
		}
		return "", nil
	}
	if t.Failed == "" && s.Invocation != t.Start {
		v.started(t, s)
		if why := v.exhausted(t); why != "" {
			is.blame(why)
		} else {
			t.Starts--
		}
	}
	if s.Running == t.Version {
		t.PID = s.PID
	}
	if t.Failed == "" {
		return "", nil
	}
	if err := v.giveBack(t); err != nil {
		return "", err
	}
	if !v.held(fileJudge) { // nobody is there to wait for the old one
		is.end(Outcome{})
	}
	if current == t.Previous && s.Running != t.Version {
		return "", nil
	}
	return t.Previous, nil
}

// started notes that a new start is under way: who ran before has ended. The machine's clock may say what it likes; of its
// start the kernel knows by itself how long ago it was.
func (v *Versions) started(t *Trial, s Start) {
	t.Start, t.PID, t.Before.PID = s.Invocation, 0, 0
	if boot, now := machineClock(); boot != t.Boot || now < t.Ticks {
		t.Boot, t.Ticks = boot, now
	}
}

// exhausted says why a version gets no further start; "" = it gets one.
func (v *Versions) exhausted(t *Trial) string {
	if t.Starts <= 0 {
		return fmt.Sprintf("it was started %d times and not found good", starts)
	}
	_, now := machineClock()
	if late := time.Duration(now-t.Ticks) * time.Second; t.Starts < starts && late > time.Duration(t.Patience)*time.Second+graceOfJudge && !v.held(fileJudge) {
		return fmt.Sprintf("it was not found good within %v of its first start", late)
	}
	return ""
}

// graceOfJudge is what a judge needs beyond the patience with a version: it watches, and it wakes up.
const graceOfJudge = 5 * time.Minute

// giveBack turns the links to what they were before a trial, as far as they are not.
func (v *Versions) giveBack(t *Trial) error {
	if err := v.turn(linkCurrent, t.Previous); err != nil {
		return err
	}
	v.done("returned")
	if t.Older == "" || t.Older == t.Version {
		return nil
	}
	_ = v.turn(linkPrevious, t.Older) // where it has gone meanwhile, previous stays where it is, and runs
	return nil
}

// end closes a trial. Of o only what the judge alone knows is taken.
func (s *State) end(o Outcome) {
	t := s.Trial
	o.Version, o.From, o.Why, o.Good, o.Time = t.Version, t.Previous, t.Failed, t.Failed == "", time.Now().UTC()
	if o.Good {
		s.forgive(t.Version)
	}
	s.Last, s.Trial = &o, nil
}
