package transfer

import (
	"sync"
	"time"
)

const (
	// maxGuests bounds who may come by the direct path: more than there are members.
	maxGuests = 256
	// guestFor is how long one may after it has said that it will.
	guestFor = 10 * time.Minute
)

// guest is a member that has said over the mesh by which certificate it will be known.
type guest struct {
	id    string
	print print
	until time.Time
}

// guests is who may come by the direct path, by the name in their hello.
type guests struct {
	mu sync.Mutex // guards what follows
	of map[string]guest
}

// expect puts a member on the list, with one certificate at a time.
func (l *guests) expect(id string, p print, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]guest{}
	}
	var oldest string
	for name, g := range l.of {
		if g.id == id || g.until.Before(now) {
			delete(l.of, name)
		} else if oldest == "" || g.until.Before(l.of[oldest].until) {
			oldest = name
		}
	}
	if len(l.of) >= maxGuests {
		delete(l.of, oldest)
	}
	l.of[p.name()] = guest{id, p, now.Add(guestFor)}
}

func (l *guests) named(name string) (guest, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, ok := l.of[name]
	return g, ok && time.Now().Before(g.until)
}
