package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Request names what a caller wants of [Engine.Acquire].
type Request struct {
	Model    string
	Backends []string // backend ids it accepts; nil = any of the model's
	Prefer   string   // backend id taken first when it has a free slot; "" = none
	Session  string   // digest of the conversation, for status only; "" = none
	NoWait   bool     // a free slot now, or ErrFull
}

// Errors of [Engine.Acquire]. Callers branch on them with errors.Is.
var (
	ErrUnknownModel = errors.New("no such model on this machine")
	ErrNotReady     = errors.New("no backend of this model is ready")
	ErrDraining     = errors.New("this node is draining")
	ErrFull         = errors.New("no free slot")
	ErrLineFull     = errors.New("the line of this model is full")
)

// ErrSilent ends an answer already under way when the engine makes no progress: [Lease.Do] and the reading of its body
// give it, wrapped. Callers tell it from an engine that broke off.
var ErrSilent = errors.New("the engine fell silent")

var (
	errStopped  = errors.New("the engine was stopped or ended")
	errReleased = errors.New("the lease was released")
)

// Timing of a lease, for headers and accounting.
type Timing struct {
	Queued time.Duration // from Acquire to the grant
	Waited bool          // stood in the line
}

// Lease is the right to run one request at a time on one slot. It must be released.
type Lease struct {
	b       *backend
	seat    *Seat
	target  Target
	context int
	granted time.Time
	timing  Timing // set when it is collected

	waiting atomic.Int64 // since when (unix ns) the caller waits for the engine's next byte; 0 = it does not

	mu       sync.Mutex
	open     map[*exchange]struct{} // sent and not answered in full
	lost     error                  // why the engine cannot finish it
	released bool
	worked   bool // something was asked of the engine with it
}

// Backend is the id of the backend that runs the request.
func (l *Lease) Backend() string { return l.b.id }

// Model is the name of the model that runs the request.
func (l *Lease) Model() string { return l.b.model.Name }

// Replaced reports whether another engine has taken the place of the one that runs the request: what that one holds goes
// with it.
func (l *Lease) Replaced() bool { return l.b.replaced() }

// Timing tells how long the lease was waited for.
func (l *Lease) Timing() Timing { return l.timing }

// Context is the number of tokens the slot can hold, 0 when not known.
func (l *Lease) Context() int { return l.context }

// Release gives the slot back, cancelling what still runs on it. The slot is free at once when every answer was read to
// its end; otherwise it waits until the engine has let go. Calling it again does nothing.
func (l *Lease) Release() {
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return
	}
	l.released = true
	open := l.exchanges()
	l.mu.Unlock()
	for _, x := range open {
		x.cancel(errReleased)
	}
	l.b.leave(l, len(open) == 0)
}

// abort ends what runs on the lease with err; the caller still has to release it.
func (l *Lease) abort(err error) {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = err
	}
	open := l.exchanges()
	l.mu.Unlock()
	for _, x := range open {
		x.cancel(err)
	}
}

func (l *Lease) exchanges() []*exchange {
	open := make([]*exchange, 0, len(l.open))
	for x := range l.open {
		open = append(open, x)
	}
	return open
}

// working reports whether the engine must have been busy with this lease when it was asked at that moment, and is
// still: only then may the lease explain a slot that is seen processing.
func (l *Lease) working(asked time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for x := range l.open {
		if x.begun(asked) {
			return true
		}
	}
	return false
}
