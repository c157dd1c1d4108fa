package enginetest

import (
	"net/http"
	"sync"
	"time"
)

// Stats counts what a server has seen. Inference is what needs a slot.
type Stats struct {
	Requests  int // of any kind
	Active    int // inferences under way, waiting ones included
	MaxActive int // the most at one time
	Queued    int // inferences waiting for a slot now
	// Oversubscribed counts the inferences that found no free slot and had to wait for one.
	Oversubscribed int
	Served         int // inferences answered to their end
	Cancelled      int // inferences given up because their client had left
	Failed         int // inferences ended by an error or a fault
}

// Seen is one request as it arrived.
type Seen struct {
	Time   time.Time
	Method string
	Path   string
	Query  string
	Header http.Header
	Size   int    // bytes of the body
	Body   []byte // with Options.KeepBodies
	Fate   Fate   // of an inference, once it has ended
}

// Fate is how an inference ended.
type Fate string

// An inference that is under way has none of these yet.
const (
	Served    Fate = "served"    // answered to its end
	Cancelled Fate = "cancelled" // given up because its client had left
	Failed    Fate = "failed"    // ended by an error or a fault
)

// Stats returns the counters.
func (s *Server) Stats() Stats {
	queued := s.slots.queued()
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	st := s.seen.stats
	st.Queued = queued
	return st
}

// Requests returns the last requests, oldest first.
func (s *Server) Requests() []Seen {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	all := make([]Seen, 0, len(s.seen.log))
	for _, part := range [][]*Seen{s.seen.log[s.seen.next:], s.seen.log[:s.seen.next]} {
		for _, entry := range part {
			all = append(all, *entry)
		}
	}
	return all
}

// journal holds the counters and a ring of the last requests.
type journal struct {
	keep int

	mu    sync.Mutex
	none  sync.Cond // no request is open; on mu
	open  int
	stats Stats
	log   []*Seen
	next  int // where the ring is written next, once full
}

func (j *journal) init(keep int) { j.keep, j.none.L = keep, &j.mu }

// add notes a request; leave must be called when it has been answered.
func (j *journal) add(r *http.Request, size int, body []byte) *Seen {
	entry := &Seen{Time: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Header: r.Header.Clone(), Size: size, Body: body}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open++
	j.stats.Requests++
	if len(j.log) < j.keep {
		j.log = append(j.log, entry)
		return entry
	}
	j.log[j.next] = entry
	j.next = (j.next + 1) % j.keep
	return entry
}

func (j *journal) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open--; j.open == 0 {
		j.none.Broadcast()
	}
}

// wait returns when no request is being answered any more.
func (j *journal) wait() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.open > 0 {
		j.none.Wait()
	}
}

func (j *journal) count(f func(*Stats)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.stats)
}

func (j *journal) begin() {
	j.count(func(s *Stats) {
		s.Active++
		s.MaxActive = max(s.MaxActive, s.Active)
	})
}

// end notes how an inference has ended.
func (j *journal) end(entry *Seen, fate Fate) {
	j.count(func(s *Stats) {
		s.Active--
		switch entry.Fate = fate; fate {
		case Served:
			s.Served++
		case Cancelled:
			s.Cancelled++
		default:
			s.Failed++
		}
	})
}
