package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/mesh"
)

const (
	// bodyIdle is how long a client may send nothing of a body it announced.
	bodyIdle = 30 * time.Second
	// memberIdle is the same for a member, which has the body whole and holds a slot with it.
	memberIdle = 5 * time.Second
	// bodyPace is, in bytes a second, how fast a body must come on the whole. Without it a few thousand clients that send
	// a byte now and then would hold all room for bodies for good.
	bodyPace = 1 << 10
	// firstRead is what is set aside for a body before its first byte has come. A body is paid for as it arrives, so a
	// client that announces much and sends nothing holds next to nothing.
	firstRead = 64 << 10
	// pooled is the largest buffer kept for the next request.
	pooled = 256 << 10
	// drainFor is how long a refused client may go on sending before it is cut off. Many clients read an answer only
	// once all is sent, and would see a reset instead.
	drainFor = 5 * time.Second
)

// budget counts the bytes of all bodies held at one time.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// body is a client's request body in memory. release gives it back.
type body struct {
	bytes  []byte
	held   int64
	budget *budget
	lent   bool // something may read it a little longer than the request lasts
}

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

func (b *body) release() {
	b.budget.give(b.held)
	if buf := b.bytes[:0]; cap(buf) >= firstRead && cap(buf) <= pooled && !b.lent {
		bodies.Put(&buf)
	}
	b.bytes, b.held = nil, 0
}

// readBody reads the whole body within the limits. A body that announces itself as too large is refused before it is
// read; one that stops coming for idle is given up. After an error the answer must be written with refuse.
func (g *Gateway) readBody(c echo.Context, idle time.Duration) (body, error) {
	r := c.Request()
	b := body{budget: &g.bodies}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return b, &Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_encoding", Message: "compressed request bodies are not taken; send it without Content-Encoding"}
	}
	if r.ContentLength > g.cfg.MaxBody {
		return b, errTooLarge
	}
	if !b.grow(firstRead) {
		return b, errNoRoom
	}
	rc := http.NewResponseController(c.Response())
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	if err := b.fill(r, rc, bodyLimits{g.cfg.MaxBody, idle}); err != nil {
		b.release()
		return b, err
	}
	return b, nil
}

var (
	errTooLarge = &Error{Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Message: "the request body is larger than this node takes; shorten it or raise api.max_body"}
	errNoRoom   = &Error{Status: http.StatusServiceUnavailable, Code: "too_many_bodies", RetryAfter: 2 * time.Second, Message: "this node holds as many request bodies as it may; try again shortly"}
	errSlow     = &Error{Status: http.StatusRequestTimeout, Code: "body_timeout", Message: "the request body stopped coming; send it again"}
	errCutBody  = &Error{Status: http.StatusBadRequest, Code: "body_incomplete", Message: "the request body ended before its announced length; send it again"}
)

// bodyLimits are what one body may cost.
type bodyLimits struct {
	size int64
	idle time.Duration // without a byte
}

// deadline is until when the next bytes of a body must be there, of which got have come since start.
func (l bodyLimits) deadline(start, now time.Time, got int) time.Time {
	idle := now.Add(l.idle)
	slow := start.Add(l.idle + time.Duration(got)*time.Second/bodyPace)
	if slow.Before(idle) {
		return slow
	}
	return idle
}

// bodyIdle is how long the sender of this request's body may send nothing.
func (k *call) bodyIdle() time.Duration {
	if k.hop != nil {
		return memberIdle
	}
	return bodyIdle
}

// fill reads r's body to its end, growing as bytes come.
func (b *body) fill(r *http.Request, rc *http.ResponseController, l bodyLimits) error {
	start := time.Now()
	for {
		if len(b.bytes) == cap(b.bytes) {
			want := min(int64(cap(b.bytes))*4, l.size+1)
			if r.ContentLength > 0 && r.ContentLength < want {
				want = r.ContentLength + 1 // the byte more lets the last read see the end
			}
			if !b.grow(want) {
				return errNoRoom
			}
		}
		_ = rc.SetReadDeadline(l.deadline(start, time.Now(), len(b.bytes))) // an in-memory server has none to set
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > l.size:
			return errTooLarge
		case err == io.EOF:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errSlow
		case errors.Is(err, mesh.ErrBodyDigest):
			return errForged
		case err != nil:
			return errCutBody
		}
	}
}

// grow makes room for size bytes in all, if the budget has it.
func (b *body) grow(size int64) bool {
	more := size - b.held
	if more > 0 && !b.budget.take(more) {
		return false
	}
	b.held += max(more, 0)
	if b.bytes == nil && size <= firstRead {
		buf := *bodies.Get().(*[]byte)
		if extra := int64(cap(buf)) - size; b.budget.take(extra) {
			b.bytes, b.held = buf, b.held+extra
			return true
		}
	}
	next := make([]byte, len(b.bytes), size)
	copy(next, b.bytes)
	b.bytes = next
	return true
}

// refuse answers with err while the client may still be sending, then reads on for a moment so that it sees the answer
// rather than a reset.
func (g *Gateway) refuse(c echo.Context, err error) error {
	rc := http.NewResponseController(c.Response())
	_ = rc.EnableFullDuplex() // else net/http reads the rest of the body before it sends the answer
	c.Response().Header().Set("Connection", "close")
	WriteError(c, err)
	_ = rc.Flush()
	if c.Request().Header.Get("Expect") != "" {
		return nil // it waits for leave to send, and has its answer
	}
	_ = rc.SetReadDeadline(time.Now().Add(drainFor))
	_, _ = io.CopyN(io.Discard, c.Request().Body, 2*g.cfg.MaxBody)
	return nil
}
