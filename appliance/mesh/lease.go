package mesh

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	leasePath = "/v1/lease"
	leaseSize = 16 // random bytes of a lease's id

	maxAsk    = 16 << 10 // bytes of JSON
	maxStand  = 10 * time.Minute
	maxPhrase = 1000 // bytes of what is said to a person
)

// Ask is what an entry wants of an owner of seats.
type Ask struct {
	Model    string   `json:"model"`
	Backends []string `json:"backends,omitempty"` // ids of those it accepts; none = any of the model's
	Prefer   string   `json:"prefer,omitempty"`   // id of the one taken first when it has a free slot; "" = none
	Session  string   `json:"session,omitempty"`  // digest of the conversation, for status only; "" = none
	WaitMS   int64    `json:"wait_ms"`            // how long it may stand in the line; 0 = a free slot now or a refusal
}

// Grant is a seat that waits at its owner for the forward, 2 s at most.
type Grant struct {
	ID      string `json:"lease"`
	Backend string `json:"backend"`
}

// SeatRefused is why an owner gave no seat, on both sides of the wire.
type SeatRefused struct {
	Status        int    // of HTTP
	Code, Message string // as in the API's errors
	RetryAfter    time.Duration
}

func (e *SeatRefused) Error() string { return e.Message }

// CodeLineFull is the code of a refusal for want of a place in the line, not of a slot.
const CodeLineFull = "line_full"

// Refusals that are the desk's own.
var (
	refusedCrowd  = &SeatRefused{http.StatusTooManyRequests, CodeLineFull, "too many requests of members are waiting here; try again shortly", 2 * time.Second}
	refusedFull   = &SeatRefused{http.StatusTooManyRequests, "node_full", "this node has no free slot for the model", 2 * time.Second}
	refusedWaited = &SeatRefused{http.StatusTooManyRequests, "queue_timeout", "no slot became free in time; try again shortly", 2 * time.Second}
	refusedEnding = &SeatRefused{http.StatusServiceUnavailable, "draining", "this node is on its way down; use another one", 5 * time.Second}
	refusedLost   = &SeatRefused{http.StatusServiceUnavailable, "entry_lost", "this node has not heard the asking one for too long; see whether it reaches that machine", time.Second}
	refusedFault  = &SeatRefused{http.StatusServiceUnavailable, "no_seat", "this node has no slot to give; its log says why", 5 * time.Second}
)

// standing is one line of the answer to an Ask that waits: exactly one of Ahead, ID and Refused is set.
type standing struct {
	Ahead    *int         `json:"ahead,omitempty"`
	ExpectMS *int64       `json:"expect_ms,omitempty"` // until there is a seat; nil = unknown
	ID       string       `json:"lease,omitempty"`
	Backend  string       `json:"backend,omitempty"`
	Refused  *refusedLine `json:"refused,omitempty"`
}

type refusedLine struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Status       int    `json:"status"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

func (e *SeatRefused) line() *refusedLine {
	return &refusedLine{Code: e.Code, Message: e.Message, Status: e.Status, RetryAfterMS: e.RetryAfter.Milliseconds()}
}

// refusal believes of a member's refusal what is within bounds.
func (l *refusedLine) refusal() *SeatRefused {
	e := &SeatRefused{Status: l.Status, Code: l.Code, Message: l.Message}
	if e.Status < 400 || e.Status > 599 {
		e.Status = http.StatusBadGateway
	}
	if !isText(e.Code) {
		e.Code = ""
	}
	if e.Message == "" || !isPrintable(e.Message, maxPhrase) {
		e.Message = "the member gives no seat and does not say why"
	}
	e.RetryAfter = min(millis(l.RetryAfterMS), time.Hour)
	return e
}

// millis turns what a stranger wrote into a duration of a day at most.
func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), (24*time.Hour).Milliseconds())) * time.Millisecond
}

var (
	errAskSize = errors.New("reading what is asked for: the body is too large")
	errAsk     = errors.New("reading what is asked for: it is no JSON of the kind expected, or passes the bounds")
)

// readAsk reads the body to its end, where it has proved to be the one that was signed, and only then looks at it.
func readAsk(body io.Reader) (Ask, error) {
	data, err := io.ReadAll(io.LimitReader(body, maxAsk+1))
	switch {
	case len(data) > maxAsk:
		return Ask{}, errAskSize
	case err != nil:
		return Ask{}, err
	}
	var a Ask
	if json.Unmarshal(data, &a) != nil || !a.inBounds() { // its bytes are a stranger's: they stay out of the error
		return Ask{}, errAsk
	}
	if len(a.Backends) == 0 {
		a.Backends = nil
	}
	return a, nil
}

func (a Ask) inBounds() bool {
	return a.Model != "" && isText(a.Model) && (a.Prefer == "" || isBackendID(a.Prefer)) && isText(a.Session) && a.WaitMS >= 0 &&
		len(a.Backends) <= maxBackends && !slices.ContainsFunc(a.Backends, func(id string) bool { return !isBackendID(id) })
}

// wait is how long it may stand in the line.
func (a Ask) wait() time.Duration { return min(millis(a.WaitMS), maxStand) }

// isLease reports whether s can be the id of a lease.
func isLease(s string) bool { return decode(s, leaseSize) != nil }
