package modelcopy

import "sync"

// What a copy is at.
const (
	StateCopying  = "copying"
	StateWaiting  = "waiting"  // for its turn at the member
	StateChecking = "checking" // what is here already, or what has come
)

// Progress is how far a copy has come.
type Progress struct {
	File  string
	State string
	Done  int64 // bytes of all files that are here
	Size  int64 // bytes of all files
}

// telling is what has been told of a copy. Who waits for a piece tells of it while others go on.
type telling struct {
	tell func(Progress) // one call at a time

	mu sync.Mutex // guards what follows
	at Progress
}

// say tells what has changed.
func (t *telling) say(change func(*Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.at)
	t.tell(t.at)
}

// waits tells that the member has no place for this one yet.
func (t *telling) waits() {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.at
	at.State = StateWaiting
	t.tell(at)
}

func (t *telling) now() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}
