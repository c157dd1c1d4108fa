package serf

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	hserf "github.com/hashicorp/serf/serf"
)

// lookInterval is how often the table is read again without a cause: rivals are asked, lost wake-ups made good.
const lookInterval = time.Second

// watch is what Run's goroutine knows; it is the only writer of the members.
type watch struct {
	c       *Cluster
	lib     *hserf.Serf
	events  <-chan hserf.Event
	self    Member
	company time.Time // since when there are other living members; zero = alone
	settled bool      // had company for settleTime: no newcomer any more
	twin    Member    // has our id at another address
	twinAt  time.Time // when that was last heard; zero = never
}

// run returns when ctx ends, Stop is called, or this node must not be in the mesh; silent means without a goodbye.
func (w *watch) run(ctx context.Context) (silent bool, err error) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-w.c.stop:
			return true, nil
		case <-w.lib.ShutdownCh():
			return true, errors.New("gossip stopped by itself: restart this node")
		case e := <-w.events:
			if !w.hear(e) {
				continue
			}
		case w.twin = <-w.c.twins:
			w.twinAt = time.Now()
		case <-tick.C:
		}
		w.refresh()
		if err := w.judge(time.Now()); err != nil {
			return false, err
		}
	}
}

// hear passes an event of ours on and reports whether it is one about members instead.
func (w *watch) hear(e hserf.Event) bool {
	switch e := e.(type) {
	case hserf.UserEvent:
		if eventSize(e.Name, e.Payload) <= maxEvent {
			w.c.tell(Event{Kind: KindMessage, Name: e.Name, Payload: e.Payload})
		}
		return false
	case hserf.MemberEvent:
		return true
	default:
		return false
	}
}

// refresh publishes the library's table and tells what changed since the last time. What the library says about single
// members is only the cause: so every event fits the snapshot that is read after it.
func (w *watch) refresh() {
	var next []Member
	for _, raw := range w.lib.Members() {
		if m, err := read(raw); err == nil {
			next = append(next, m)
		}
	}
	slices.SortFunc(next, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	prev := *w.c.members.Load()
	events := diff(prev, next)
	if len(events) == 0 {
		return
	}
	w.c.members.Store(&next)
	for _, e := range events {
		w.c.tell(e)
		if e.Kind != KindChanged && e.Member.ID != w.self.ID {
			w.c.log.Info("member "+string(e.Kind), "name", e.Member.Name, "id", e.Member.ID, "addr", e.Member.Addr.String())
		}
	}
}

// diff says how next came out of prev; both are sorted by ID.
func diff(prev, next []Member) []Event {
	var events []Event
	i := 0
	for _, m := range next {
		for i < len(prev) && prev[i].ID < m.ID {
			events = append(events, Event{Kind: KindForgotten, Member: prev[i]})
			i++
		}
		switch {
		case i == len(prev) || prev[i].ID != m.ID:
			events = append(events, Event{Kind: kindOf(m.State), Member: m})
			continue
		case prev[i].State != m.State || m.State == StateAlive && prev[i].Since != m.Since:
			events = append(events, Event{Kind: kindOf(m.State), Member: m}) // another start is another join
		case prev[i] != m:
			events = append(events, Event{Kind: KindChanged, Member: m})
		}
		i++
	}
	for ; i < len(prev); i++ {
		events = append(events, Event{Kind: KindForgotten, Member: prev[i]})
	}
	return events
}

func kindOf(s State) EventKind {
	switch s {
	case StateLeft:
		return KindLeft
	case StateFailed:
		return KindFailed
	default:
		return KindJoined
	}
}
