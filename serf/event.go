package serf

import (
	"context"
	"fmt"
)

// maxEvent is the room for one message's name and payload, in bytes, with what encoding adds.
const maxEvent = 512

// messageOverhead is what encoding adds to a message at most, in bytes.
const messageOverhead = 48

// MaxMessage is the most bytes that the name and payload of a Broadcast may have together.
const MaxMessage = maxEvent - messageOverhead

// subscriberBuffer is how many events a subscriber may be behind.
const subscriberBuffer = 256

// EventKind says what happened.
type EventKind string

const (
	KindJoined    EventKind = "joined"    // is alive, for the first time, again or newly started
	KindLeft      EventKind = "left"      // said goodbye
	KindFailed    EventKind = "failed"    // stopped answering
	KindChanged   EventKind = "changed"   // says something else about itself
	KindForgotten EventKind = "forgotten" // left or failed a day ago
	KindMessage   EventKind = "message"   // somebody's Broadcast; our own too
)

// Event is a change of the members or a message.
type Event struct {
	Kind    EventKind
	Member  Member // as it is now; zero for a message
	Name    string // of a message
	Payload []byte // of a message; shared, not to be changed. Gossip does not tell who sent it
	Missed  int    // events lost right before this one: the subscriber was too slow and reads Members again
}

type subscriber struct {
	ch     chan Event
	missed int // guarded by Cluster.mu
}

// Subscribe returns a channel of what happens from now on. It is closed when Run ends or by the returned function,
// which must be called in the end. Whoever is more than a few hundred events behind loses some, see Event.Missed.
func (c *Cluster) Subscribe() (<-chan Event, func()) {
	s := &subscriber{ch: make(chan Event, subscriberBuffer)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		close(s.ch)
		return s.ch, func() {}
	}
	c.subs[s] = struct{}{}
	return s.ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, ok := c.subs[s]; ok {
			delete(c.subs, s)
			close(s.ch)
		}
	}
}

// tell waits for nobody.
func (c *Cluster) tell(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.subs {
		e.Missed = s.missed
		select {
		case s.ch <- e:
			s.missed = 0
		default:
			s.missed++
		}
	}
}

// Broadcast tells every member something small, a digest or a hint to ask over HTTP. It arrives at each living member
// once, in half a second as a rule and seldom up to half a minute later, and never at one that is cut off meanwhile.
// Name and payload have at most MaxMessage bytes.
func (c *Cluster) Broadcast(ctx context.Context, name string, payload []byte) error {
	if n := len(name) + len(payload); n > MaxMessage {
		return fmt.Errorf("telling the mesh %.40q: %d bytes do not fit into gossip, %d would", name, n, MaxMessage)
	}
	lib, err := c.library(ctx)
	if err != nil {
		return fmt.Errorf("telling the mesh %.40q: %w", name, err)
	}
	if err := lib.UserEvent(name, payload, false); err != nil {
		return fmt.Errorf("telling the mesh %.40q: %w", name, err)
	}
	return nil
}

func eventSize(name string, payload []byte) int { return len(name) + len(payload) }
