package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// good ends the trial of a version that proved itself, and lets go of the versions before the previous one.
func (j *judge) good(ctx context.Context) error {
	err := j.at.change(func(s *State) error {
		if s.Trial == nil || s.Trial.Failed != "" {
			return errDecided
		}
		s.end(j.outcome)
		return nil
	})
	if errors.Is(err, errDecided) {
		return j.takeBackIfAsked(ctx)
	}
	if err != nil {
		return err
	}
	j.Log.Info("it is good", "version", j.trial.Version, "drain_s", j.outcome.Drain, "swap_s", j.outcome.Swap)
	unlock, err := j.at.lock(fileLock, "removing old versions")
	if err != nil {
		return nil // the next update does it
	}
	defer unlock()
	j.at.prune()
	return nil
}

// takeBackIfAsked is for a person's word that came in the last moment.
func (j *judge) takeBackIfAsked(ctx context.Context) error {
	if on, err := j.read(); err != nil || !on {
		return err
	}
	return j.takeBack(ctx)
}

func (j *judge) fail(s *State, why string) error {
	if s.Trial == nil {
		return errDecided
	}
	if s.Trial.Failed == "" {
		s.blame(why)
	}
	j.trial = *s.Trial
	return nil
}

// takeBack turns the links back, ends the node that runs the version which failed, so that whatever started it starts the
// old one, and waits until that is as ready as it was.
func (j *judge) takeBack(ctx context.Context) error {
	j.Log.Warn("taking it back", "version", j.trial.Version, "why", j.trial.Failed)
	if err := j.at.alone(func() error { return j.at.giveBack(&j.trial) }); err != nil {
		return err
	}
	if j.trial.Before.PID == 0 || !j.isThere(ctx, j.trial.Before.PID) { // else the old one never ended
		j.endNode(ctx)
	}
	j.outcome.Fault = j.awaitOld(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.at.change(func(s *State) error {
		if s.Trial == nil {
			return nil
		}
		s.end(j.outcome)
		return nil
	})
}

// isThere reports whether the node that answers is this process.
func (j *judge) isThere(ctx context.Context, pid int) bool {
	seen, err := j.lookPlain(ctx)
	return err == nil && seen.PID == pid
}

func (j *judge) lookPlain(ctx context.Context) (Sight, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return j.Node.Look(ctx)
}

// endNode ends the process that runs the version on trial: the one that answers, else the one that said that it starts,
// else the one that answered last.
func (j *judge) endNode(ctx context.Context) {
	pid := j.candidate(ctx)
	if pid <= 1 {
		return
	}
	j.Log.Info("ending it", "process", pid)
	signal, patience, runs := syscall.SIGTERM, time.Now().Add(j.Stop), j.runs(pid)
	for j.Kill(pid, signal) == nil {
		signal = 0 // only asks whether it is there
		if j.runs(pid) != runs {
			return // it has ended, and the number may be a stranger's now
		}
		if time.Now().After(patience) {
			j.Log.Warn("killing it", "process", pid)
			_ = j.Kill(pid, syscall.SIGKILL)
			return
		}
		if seen, err := j.lookPlain(ctx); err == nil && seen.PID != pid {
			return
		}
		if !pause(ctx, lookEvery) {
			return
		}
	}
}

// candidate is the process to end; 0 = there is none of which it is sure that it runs the version on trial.
func (j *judge) candidate(ctx context.Context) int {
	if seen, err := j.lookPlain(ctx); err == nil {
		if !j.isOnTrial(seen) {
			return 0
		}
		return seen.PID
	}
	for _, pid := range []int{j.trial.PID, j.node} {
		exe := j.runs(pid)
		if pid > 1 && (exe == j.at.Program(j.trial.Version) || exe == j.at.Program(linkCurrent)) {
			return pid
		}
	}
	return 0
}

// runs is the program of a process; "" = nobody knows.
func (j *judge) runs(pid int) string {
	exe, err := j.Exe(pid)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(exe, " (deleted)")
}

// awaitOld waits for the version that was before; what it says is what is still wrong at the end of the patience. A node
// that is started by hand, and is ended, does not come by itself; a manager that has given up on the new one has to be told.
func (j *judge) awaitOld(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.trial.Patience)*time.Second)
	defer cancel()
	since, told, fault := time.Now(), j.Revive == nil, ""
	for {
		seen, err := j.lookPlain(ctx)
		if err != nil && ctx.Err() != nil && fault != "" {
			return Clip(fault) // a look that was cut off says nothing
		}
		if err != nil && !told && time.Since(since) >= reviveAfter {
			told = true
			if err := j.Revive(ctx); err != nil {
				j.Log.Warn("the node is not started again", "error", err)
			}
		}
		fault = j.trial.Before.Lacks(seen.Ready)
		switch {
		case err != nil:
			fault = fmt.Sprintf("no node answers since it was ended: %v", err)
		case j.trial.Before.Version != "" && seen.Version != j.trial.Before.Version:
			fault = fmt.Sprintf("what runs is %s, not %s", seen.Version, j.trial.Before.Version)
		}
		if fault == "" || !pause(ctx, lookEvery) {
			return Clip(fault)
		}
	}
}
