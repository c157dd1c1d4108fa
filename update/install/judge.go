package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"
)

// Node is the running node, as a judge sees it.
type Node interface {
	// Look says how it is. An error means that it does not answer.
	Look(ctx context.Context) (Sight, error)
	// Complete has a model of this very node answer something short.
	Complete(ctx context.Context, model string) error
}

// Sight is a node at one moment.
type Sight struct {
	PID     int
	Version string         // what it says of itself
	Ready   map[string]int // backends of each model that serve
}

// JudgeConfig is what a judge needs to know. A zero field has the default that is named.
type JudgeConfig struct {
	Node  Node
	Watch time.Duration                   // how long a version that proved itself has to stay up; 0 = a minute
	Stop  time.Duration                   // how long a node that is ended may take before it is killed; 0 = a minute
	Kill  func(int, syscall.Signal) error // nil = the system's
	Log   *slog.Logger                    // nil = none
	Exe   func(pid int) (string, error)   // the program that a process runs; nil = as the system says

	Revive func(context.Context) error // starts the node if what should do that has given up; nil = nobody can
}

// Times of a judge.
const (
	defaultWatch = time.Minute
	defaultStop  = time.Minute
	lookEvery    = 200 * time.Millisecond
	lookWithin   = 10 * time.Second
	answerWithin = 3 * time.Minute // a few words, from a slow machine
	silences     = 3               // looks in a row that a node which was up may leave unanswered
	silencePause = time.Second
	answerTries  = 3
	answerPause  = 3 * time.Second
	reviveAfter  = 20 * time.Second // of silence, when the old version should have been started again
)

// judge is one trial as it is judged.
type judge struct {
	JudgeConfig
	at    *Versions
	trial Trial // as it was read last
	begun time.Time

	node    int       // the process that runs the version on trial; 0 = none was seen
	left    time.Time // when the old one had ended; zero = it has not
	outcome Outcome
}

// Judge waits for the version on trial and finds it good or takes it back; it returns when that is done, also if another
// judge is at it or nothing is on trial. If ctx ends first, the trial goes on for the next judge. It has to be run by the
// previous version's program: what is on trial does not decide about itself.
func (v *Versions) Judge(ctx context.Context, cfg JudgeConfig) error {
	j := &judge{JudgeConfig: cfg, at: v, begun: time.Now()}
	j.defaults()
	unlock, err := v.lock(fileJudge, "judging what was installed")
	if errors.Is(err, ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if on, err := j.read(); err != nil || !on {
		return err
	}
	j.Log.Info("judging", "version", j.trial.Version, "previous", j.trial.Previous)
	if j.trial.Failed == "" {
		why := j.verdict(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if why == "" {
			return j.good(ctx)
		}
		if err := v.change(func(s *State) error { return j.fail(s, why) }); errors.Is(err, errDecided) {
			return err
		} else if err != nil { // a full disk, say, and maybe by what this version writes: no reason to leave it there
			j.Log.Warn("the verdict is not written down", "error", err)
			j.trial.Failed = Clip(why)
		}
	}
	return j.takeBack(ctx)
}

func (j *judge) defaults() {
	if j.Watch <= 0 {
		j.Watch = defaultWatch
	}
	if j.Stop <= 0 {
		j.Stop = defaultStop
	}
	if j.Kill == nil {
		j.Kill = syscall.Kill
	}
	if j.Exe == nil {
		j.Exe = processProgram
	}
	if j.Log == nil {
		j.Log = slog.New(slog.DiscardHandler)
	}
}

// read takes the trial anew from the file: starts are counted in it, and a person may have ended it.
func (j *judge) read() (on bool, err error) {
	s, err := j.at.State()
	if err != nil || s.Trial == nil {
		return false, err
	}
	j.trial = *s.Trial
	return true, nil
}

// errDecided ends the stages when somebody else has ended the trial.
var errDecided = errors.New("it was decided elsewhere")

// verdict goes through the stages; "" = the version is good.
func (j *judge) verdict(ctx context.Context) string {
	patience := time.Duration(j.trial.Patience) * time.Second
	proving, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, stage := range []func(context.Context) error{j.awaitNode, j.awaitReady, j.prove} {
		if err := stage(proving); err != nil {
			return j.reason(proving, err, patience)
		}
	}
	if err := j.watch(ctx); err != nil {
		return j.reason(ctx, err, j.Watch)
	}
	return ""
}

func (j *judge) reason(ctx context.Context, err error, within time.Duration) string {
	if errors.Is(err, errDecided) && j.trial.Failed != "" {
		return j.trial.Failed
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("after %v %s", within, err)
	}
	return err.Error()
}

// errOver is of a look that the end of the time has cut off. It says nothing of the node: what was seen before it does.
var errOver = errors.New("no answer came in time")

// look looks once, and says what has become of the trial meanwhile. A node that is none of the trial's is no sight.
func (j *judge) look(ctx context.Context) (Sight, error) {
	if on, err := j.read(); err == nil && (!on || j.trial.Failed != "") {
		return Sight{}, errDecided
	}
	asking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	seen, err := j.Node.Look(asking)
	switch {
	case err != nil && ctx.Err() != nil:
		return Sight{}, errOver
	case err != nil:
		if j.left.IsZero() && j.trial.Before.PID != 0 {
			j.left = time.Now()
			j.outcome.Drain = j.left.Sub(j.begun).Seconds()
		}
		return Sight{}, fmt.Errorf("the node does not answer: %w", err)
	case seen.PID == j.trial.Before.PID && seen.PID != 0:
		return Sight{}, errors.New("the node of before still runs")
	case !j.isOnTrial(seen):
		return Sight{}, fmt.Errorf("what runs is %s, not %s: the node is not started from %s", Clip(seen.Version), j.trial.Says, j.at.at(linkCurrent))
	}
	return seen, nil
}

// isOnTrial compares what a node says of itself with what the program on trial said.
func (j *judge) isOnTrial(seen Sight) bool {
	return j.trial.Says == "" || seen.Version == j.trial.Says
}

// awaitNode waits until the version on trial answers.
func (j *judge) awaitNode(ctx context.Context) error {
	var why error
	for {
		seen, err := j.look(ctx)
		if errors.Is(err, errDecided) {
			return err
		}
		if err == nil {
			j.node = seen.PID
			if !j.left.IsZero() {
				j.outcome.Swap = time.Since(j.left).Seconds()
			}
			return j.stage(Started, "")
		}
		if why == nil || !errors.Is(err, errOver) {
			why = err
		}
		if !pause(ctx, lookEvery) {
			return why
		}
	}
}

// see looks at the node that was seen before: it must be the same process, and may be silent for a moment only.
func (j *judge) see(ctx context.Context) (Sight, error) {
	for quiet := 1; ; quiet++ {
		seen, err := j.look(ctx)
		switch {
		case errors.Is(err, errDecided):
			return seen, err
		case err == nil && seen.PID != j.node:
			j.node = seen.PID
			return seen, errors.New("it ended and was started again")
		case err == nil:
			return seen, nil
		case quiet == silences || !pause(ctx, silencePause):
			return seen, err
		}
	}
}

// awaitReady waits until every model has as many backends as before.
func (j *judge) awaitReady(ctx context.Context) error {
	said := ""
	for {
		seen, err := j.see(ctx)
		switch {
		case errors.Is(err, errOver) && said != "":
			return errors.New(said)
		case err != nil:
			return err
		}
		short := j.trial.Before.Lacks(seen.Ready)
		if short == "" {
			return nil
		}
		if short != said {
			said = short
			if err := j.stage(Started, short); err != nil {
				return err
			}
		}
		if !pause(ctx, lookEvery) {
			return errors.New(short)
		}
	}
}

// prove has each model answer that answered before. One that is busy is asked again.
func (j *judge) prove(ctx context.Context) error {
	for _, model := range j.trial.Before.Answered {
		if err := j.stage(Proving, model); err != nil {
			return err
		}
		for try := 1; ; try++ {
			err := j.complete(ctx, model)
			if err == nil {
				break
			}
			if _, fault := j.see(ctx); fault != nil && !errors.Is(fault, errOver) {
				return fault
			}
			if try == answerTries || !pause(ctx, answerPause) {
				return fmt.Errorf("%s answered before and does not now: %w", model, err)
			}
		}
	}
	return nil
}

func (j *judge) complete(ctx context.Context, model string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return j.Node.Complete(ctx, model)
}

// watch has the node stay up, and be as ready at the end as it was.
func (j *judge) watch(ctx context.Context) error {
	if err := j.stage(Watching, ""); err != nil {
		return err
	}
	end, last := time.Now().Add(j.Watch), time.Now().Add(2*j.Watch)
	for {
		seen, err := j.see(ctx)
		if err != nil {
			return err
		}
		short := j.trial.Before.Lacks(seen.Ready)
		switch now := time.Now(); {
		case short == "" && !now.Before(end):
			return nil
		case short != "" && !now.Before(last):
			return errors.New(short)
		}
		if !pause(ctx, min(silencePause, j.Watch)) {
			return ctx.Err()
		}
	}
}

// stage writes down how far it is. That this cannot be written is no reason against the version.
func (j *judge) stage(s Stage, detail string) error {
	j.Log.Info("on trial", "version", j.trial.Version, "stage", s, "detail", detail)
	err := j.at.change(func(is *State) error {
		if is.Trial == nil || is.Trial.Failed != "" {
			if is.Trial != nil {
				j.trial = *is.Trial
			}
			return errDecided
		}
		is.Trial.Stage, is.Trial.Detail = s, Clip(detail)
		return nil
	})
	if err != nil && !errors.Is(err, errDecided) {
		j.Log.Warn("how far the trial is is not written down", "error", err)
		return nil
	}
	return err
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
