package transfer

import (
	"context"
	"sync"
	"time"
)

const (
	// leastMoved is how many bytes must have gone for their time to tell of the way and not of its ends.
	leastMoved = 1 << 20
	// newShare is what a new measure of a rate counts for; outlier is how many times what is known it may be.
	newShare = 0.3
	outlier  = 4
	// askerFor is how long after its last word a member still counts as one that will ask for more.
	askerFor = 15 * time.Second
	// maxAskers bounds how many of them are remembered.
	maxAskers = 256
)

func mean(old, v float64) float64 {
	if old == 0 {
		return v
	}
	return old + newShare*(min(v, outlier*old)-old)
}

// sends is how fast bytes go out of this node, and how many have yet to.
type sends struct {
	mu     sync.Mutex // guards what follows
	bps    float64
	askers map[string]asker // by id
}

type asker struct {
	left int64 // bytes it has not got yet
	at   time.Time
}

// wants notes how many bytes a member has yet to get.
func (s *sends) wants(id string, left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for other, a := range s.askers {
		if now.Sub(a.at) > askerFor {
			delete(s.askers, other)
		}
	}
	if _, known := s.askers[id]; left <= 0 || !known && len(s.askers) >= maxAskers {
		delete(s.askers, id)
		return
	}
	if s.askers == nil {
		s.askers = map[string]asker{}
	}
	s.askers[id] = asker{left, now}
}

func (s *sends) moved(n int64, took time.Duration) {
	if n < leastMoved || took <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bps = mean(s.bps, float64(n)/took.Seconds())
}

func (s *sends) told() (bps float64, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	for _, a := range s.askers {
		if time.Since(a.at) <= askerFor {
			bytes += a.left
		}
	}
	if s.bps == 0 {
		return 0, 0
	}
	return s.bps, time.Duration(float64(bytes) / s.bps * float64(time.Second))
}

// burst is how much may go at once after a pause, in time.
const burst = 100 * time.Millisecond

// limit lets through so many bytes a second, 0 = all.
type limit struct {
	bps int64

	mu   sync.Mutex // guards what follows
	next time.Time  // when the bytes let through so far will have gone
}

// wait returns when n bytes may go.
func (l *limit) wait(ctx context.Context, n int) error {
	if l.bps <= 0 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	if from := now.Add(-burst); l.next.Before(from) {
		l.next = from
	}
	l.next = l.next.Add(time.Duration(float64(n) / float64(l.bps) * float64(time.Second)))
	due := l.next.Sub(now)
	l.mu.Unlock()
	if due <= 0 {
		return nil
	}
	return sleep(ctx, due)
}
