//go:build linux

package faults_test

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// load is clients that each ask one thing after the other, through one entry after the other.
type load struct {
	all    []*machine
	mark   string // begins all its marks
	tokens int
	over   chan struct{}

	once     sync.Once
	sessions sync.WaitGroup

	mu   sync.Mutex   // guards what follows
	shut map[int]bool // entries to which no client goes
	done []asked
}

// asked is one request with all its attempts.
type asked struct {
	mark     string
	entries  []int // of its attempts
	refusals int   // for a while, after which it was tried again
	reply          // of the last attempt
	took     time.Duration
}

// newLoad has so many clients at work until it is stopped.
func newLoad(all []*machine, mark string, clients, tokens int) *load {
	l := &load{all: all, mark: mark, tokens: tokens, over: make(chan struct{}), shut: map[int]bool{}}
	for c := range clients {
		l.sessions.Go(func() {
			for n := 0; !l.ended(); n++ {
				a := l.ask(c+n, fmt.Sprintf("%s-%d-%d", mark, c, n), (c+n/len(all))%2 == 0)
				l.mu.Lock()
				l.done = append(l.done, a)
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// ask tries a request again only where nothing of it can have run: its entry took no connection, or refused it and said
// when to come again.
func (l *load) ask(turn int, mark string, stream bool) (a asked) {
	a.mark = mark
	begun := time.Now()
	defer func() { a.took = time.Since(begun) }()
	for try := 0; ; try++ {
		entry := l.entry(turn + try)
		a.entries = append(a.entries, entry)
		a.reply = l.all[entry].ask(l.query(entry, turn), mark, l.tokens, stream)
		again := a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable
		switch {
		case a.ending == unconnected && try < 10*len(l.all): // one of them is always up
		case a.ending == refusedThen && again && a.retryAfter > 0 && !l.ended():
			a.refusals++
			select {
			case <-l.over:
			case <-time.After(a.retryAfter):
			}
		default:
			return a
		}
	}
}

// query has two of three requests run elsewhere than at their entry, where there is room.
func (l *load) query(entry, turn int) string {
	if turn%3 == 0 {
		return ""
	}
	return "?prefer=" + l.all[(entry+turn%3+turn%2)%len(l.all)].name
}

// entry is the turn's entry, or the next one that clients go to.
func (l *load) entry(turn int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; ; turn++ {
		if i := turn % len(l.all); !l.shut[i] {
			return i
		}
	}
}

// close keeps new clients away from an entry, or lets them in again.
func (l *load) close(i int, shut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut[i] = shut
}

// stop lets each client finish what it asked and returns all that came of it.
func (l *load) stop() []asked {
	l.once.Do(func() { close(l.over) })
	l.sessions.Wait()
	return l.done
}
