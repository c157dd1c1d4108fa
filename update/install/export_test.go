package install

import "time"

// WithSteps has a folder of versions tell of each thing that is on disk.
func (v *Versions) WithSteps(step func(name string)) *Versions { v.step = step; return v }

// Change changes the state as any of the acts does.
func (v *Versions) Change(act func(*State)) error {
	return v.change(func(s *State) error { act(s); return nil })
}

// Lock is an update of another process.
func (v *Versions) Lock(what string) (func(), error) { return v.lock(fileLock, what) }

// Hold is a judge of another process.
func (v *Versions) Hold() (func(), error) { return v.lock(fileJudge, "judging") }

const (
	Starts       = starts
	GraceOfJudge = graceOfJudge
)

// MachineClock is the clock that nobody sets.
func MachineClock() (string, int64) { return machineClock() }

// MaxPatience bounds what a trial may ask for.
const MaxPatience = int64(maxPatience / time.Second)
