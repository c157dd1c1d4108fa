package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/engine"
)

const (
	// fullFor is how long a line that was full is not asked again for the same request, shutFor how long a node is not
	// asked whose picture was wrong for a moment.
	fullFor, shutFor = time.Second, 50 * time.Millisecond
	// freeBounces is how often a member may refuse a request for want of a slot, each time after a report that it has
	// one, before it is asked less often. Of several entries that see one slot free all but one are refused, so it is
	// no fault; but a member that tells of slots and never gives one must not be asked without end.
	freeBounces              = 3
	firstHoldOff, maxHoldOff = 50 * time.Millisecond, time.Second
)

// shut is a node whose line does not take the request for a while.
type shut struct {
	until time.Time
	full  bool // as many wait there as may
}

// learn takes note of why a node gave no seat; the zero member is this one.
func (s *search) learn(m mesh.Member, err error) {
	k := s.k
	k.g.lineup.mu.Lock()
	defer k.g.lineup.mu.Unlock()
	if m.ID == "" {
		k.shutOut(k.g.id(), errors.Is(err, engine.ErrLineFull))
		return
	}
	if k.ctx.Err() != nil {
		return
	}
	k.unseats(m, err)
	var no *mesh.SeatRefused
	switch {
	case errors.As(err, &no) && no.Status == http.StatusTooManyRequests && no.Code == mesh.CodeLineFull:
		k.shutOut(m.ID, true)
	case no != nil && no.Status == http.StatusTooManyRequests:
		k.markFull(m)
		k.bounce(m)
	default:
		k.passOver(m)
		k.last = unseated(m, err)
	}
}

func (k *call) shutOut(node string, full bool) {
	if k.shut == nil {
		k.shut = map[string]shut{}
	}
	d := shutFor
	if full {
		d = fullFor
	}
	k.shut[node] = shut{time.Now().Add(d), full}
}

// linesFull tells whether it is for want of room that no line takes the request.
func (k *call) linesFull() bool {
	k.g.lineup.mu.Lock()
	defer k.g.lineup.mu.Unlock()
	for _, s := range k.shut {
		if !s.full {
			return false
		}
	}
	return len(k.shut) > 0
}

// unseated is what a client is told when the last node that could have taken its request gave no seat.
func unseated(m mesh.Member, err error) *Error {
	var no *mesh.SeatRefused
	switch {
	case errors.As(err, &no) && no.Status == http.StatusForbidden:
		return memberRefuses(m, no.Message)
	case no != nil:
		return &Error{Status: no.Status, Code: no.Code, Message: fmt.Sprintf("node %s: %s", m.Name, no.Message), RetryAfter: no.RetryAfter}
	case errors.Is(err, mesh.ErrSilent):
		return &Error{Status: http.StatusGatewayTimeout, Code: "member_silent", Message: fmt.Sprintf("node %s fell silent before it took the request; try again", m.Name)}
	}
	return &Error{Status: http.StatusBadGateway, Code: "member_unreachable", RetryAfter: 2 * time.Second, Message: fmt.Sprintf("node %s cannot be reached; try again", m.Name)}
}

// minReturn and maxReturn bound after how long a client is told to come again.
const minReturn, maxReturn = 2 * time.Second, time.Minute

// comeBack is when a client that got no slot should come again: when the shortest line will have moved up, as far as
// anyone knows.
func (k *call) comeBack() time.Duration {
	best := maxReturn
	known := false
	for _, h := range k.g.hostsOf(k.model) {
		if ms, ok := h.wait(); ok {
			best, known = min(best, time.Duration(ms)*time.Millisecond), true
		}
	}
	if !known {
		return minReturn
	}
	return max(best, minReturn)
}

// memberRefuses is about this node, not about the client.
func memberRefuses(m mesh.Member, why string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "member_refused", RetryAfter: 5 * time.Second,
		Message: fmt.Sprintf("node %s refuses requests of this node: %s", m.Name, why)}
}

// passOver keeps the request from the member for good, and others until it has spoken again.
func (k *call) passOver(m mesh.Member) {
	k.tried = append(k.tried, m.ID)
	k.markFull(m)
}

func (k *call) markFull(m mesh.Member) { k.g.joined.Load().Table.MarkFull(m.ID, k.model) }

// bounces is how a member has refused a request for want of a slot.
type bounces struct {
	n     int
	until time.Time // it counts as full for the request
}

// bounce notes that the member has refused the request for want of a slot. The request goes on waiting.
func (k *call) bounce(m mesh.Member) {
	if k.bounced == nil {
		k.bounced = map[string]bounces{}
	}
	b := k.bounced[m.ID]
	if b.n++; b.n > freeBounces {
		b.until = time.Now().Add(min(firstHoldOff<<min(b.n-freeBounces-1, 10), maxHoldOff))
	}
	k.bounced[m.ID] = b
}

// memberLost is a member that ended or lost its answer before it was complete.
func memberLost(ctx context.Context, m mesh.Member) *Error {
	if cause := context.Cause(ctx); errors.Is(cause, mesh.ErrSilent) || errors.Is(cause, errMemberStalled) {
		return &Error{Status: http.StatusGatewayTimeout, Code: "member_silent", Message: fmt.Sprintf("node %s fell silent with the request at it; try again", m.Name)}
	}
	return &Error{Status: http.StatusBadGateway, Code: "member_broke_off", Message: fmt.Sprintf("node %s broke off before its answer was complete; try again", m.Name)}
}
