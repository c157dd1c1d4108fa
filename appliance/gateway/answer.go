package gateway

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// keepEvery is the longest silence towards a streaming client once its answer has begun; the promise is 10 s.
	keepEvery = 8 * time.Second
	// maxHold is how long the status line is held back at most, so that a refusal keeps its status.
	maxHold = 25 * time.Second
	// holdSlack lets a refusal at the very end of the queue win over the status line.
	holdSlack = 250 * time.Millisecond
	// writeStall is how long a client may leave what it was sent unread. It holds a slot meanwhile.
	writeStall = 60 * time.Second
)

// answer is the response to one client. Two write to it, the handler and the keep-alive timer, each whole events under
// the mutex; after stop only the handler does.
type answer struct {
	res  *echo.Response
	rc   *http.ResponseController
	keep func() []byte // the next keep-alive event; called under mu
	left atomic.Bool   // given up: nothing more is written

	mu       sync.Mutex
	begun    bool // the status line is out
	created  bool // responses: a response.created is out
	stopped  bool // the timer writes no more
	failed   error
	lastOut  time.Time
	deadline time.Time
	every    time.Duration
	timer    *time.Timer
}

func newAnswer(c echo.Context) *answer {
	return &answer{res: c.Response(), rc: http.NewResponseController(c.Response())}
}

// The response headers that tell how a request was served.
const (
	headID      = "X-Viiwork-Request-Id"
	headNode    = "X-Viiwork-Node"
	headOrigin  = "X-Viiwork-Origin"
	headBackend = "X-Viiwork-Backend"
	headModel   = "X-Viiwork-Model"
	headKey     = "X-Viiwork-Key"
	headRoute   = "X-Viiwork-Route"
	headQueue   = "X-Viiwork-Queue-Ms"
)

// late are the headers that become trailers when the status line goes out before they are known.
var late = []string{headNode, headBackend, headModel, headRoute, headQueue}

// know sets a header, or the trailer of that name once headers are out.
func (a *answer) know(name, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.res.Header().Set(name, value)
}

// keepAlive starts the timer: after hold the status line goes out, and from then on no silence is longer than every.
func (a *answer) keepAlive(hold, every time.Duration, keep func() []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep, a.every = keep, every
	a.timer = time.AfterFunc(hold, a.tick)
}

func (a *answer) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.failed != nil {
		return
	}
	if silent := time.Since(a.lastOut); a.begun && silent < a.every {
		a.timer.Reset(a.every - silent)
		return
	}
	a.beginLocked(http.StatusOK, eventStream)
	a.writeLocked(a.keep())
	a.flushLocked()
	a.timer.Reset(a.every)
}

// stop ends the keep-alives. After it returns the timer writes nothing more.
func (a *answer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}

// started tells whether the status line is out.
func (a *answer) started() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// events tells whether the answer has begun as an event stream.
func (a *answer) events() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun && a.res.Header().Get("Content-Type") == eventStream
}

// begin sends the status line unless it is out already.
func (a *answer) begin(status int, contentType string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beginLocked(status, contentType)
}

func (a *answer) beginLocked(status int, contentType string) {
	if a.begun {
		return
	}
	a.begun = true
	a.lastOut = time.Now()
	h := a.res.Header()
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	if contentType == eventStream {
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	for _, name := range late {
		if h.Get(name) == "" {
			h.Add("Trailer", name)
		}
	}
	a.res.WriteHeader(status)
}

// event writes one whole event, beginning the answer if need be. flush sends what has been written on its way.
func (a *answer) event(b []byte, flush bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beginLocked(http.StatusOK, eventStream)
	a.writeLocked(b)
	if flush {
		a.flushLocked()
	}
	return a.failed
}

// Write passes plain bytes on; begin must have been called.
func (a *answer) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeLocked(b)
	if a.failed != nil {
		return 0, a.failed
	}
	return len(b), nil
}

func (a *answer) writeLocked(b []byte) {
	if a.failed != nil || len(b) == 0 {
		return
	}
	now := time.Now()
	a.lastOut = now
	if a.deadline.Sub(now) < writeStall {
		a.deadline = now.Add(writeStall + writeStall/4)
		_ = a.rc.SetWriteDeadline(a.deadline) // an in-memory server has none to set
	}
	if a.left.Load() { // looked at after the deadline was moved: giveUp moves it after it has said so
		a.failed = errClientGone
		return
	}
	_, a.failed = a.res.Write(b)
}

func (a *answer) flushLocked() {
	if a.failed == nil {
		a.failed = a.rc.Flush()
	}
}

// giveUp ends a write that stands, and all after it: nobody reads at the other end. It does not wait for the writer,
// which may have filled a connection that takes no more and holds a slot as long as it stands there.
func (a *answer) giveUp() {
	a.left.Store(true)
	_ = a.rc.SetWriteDeadline(time.Unix(1, 0))
}

// end gives the connection back without a deadline of ours. One that failed keeps it: nothing may wait for it again.
func (a *answer) end() {
	a.stop()
	if !a.deadline.IsZero() && a.failed == nil && !a.left.Load() {
		_ = a.rc.SetWriteDeadline(time.Time{})
	}
}
