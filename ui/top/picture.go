package top

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"viiwork/appliance/status"
)

// readWithin is how long one picture may take.
const readWithin = 5 * time.Second

// most is how many requests are asked for: more than anybody reads.
const most = 500

// picture is the node and its mesh at one moment.
type picture struct {
	at       time.Time
	node     status.Node
	fleet    status.Fleet
	requests []status.Request // that run here or came in by here, newest first
	board    *status.Board    // what the mesh's machines tell of themselves; nil = they were not asked
}

// read asks the node how it is, and for a picture of the mesh what the others tell it of themselves.
func (cfg Config) read(ctx context.Context, mesh bool) (picture, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	p := picture{at: cfg.Now()}
	type part struct {
		path string
		into any
	}
	parts := []part{
		{"/v1/status", &p.node},
		{"/v1/fleet/capacity", &p.fleet},
		{fmt.Sprintf("/api/requests?n=%d&running=1", most), &p.requests},
	}
	if mesh {
		p.board = &status.Board{}
		parts = append(parts, part{"/api/board", p.board})
	}
	for _, part := range parts {
		if err := cfg.Get(ctx, part.path, part.into); err != nil {
			return p, err
		}
	}
	return p, nil
}

// readRequest reads one request, with the reasons for its place.
func (cfg Config) readRequest(ctx context.Context, id string) (r status.Request, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	err = cfg.Get(ctx, "/api/requests/"+url.PathEscape(id), &r)
	return r, err
}

// load is how many slots there are and how many of them are taken, nil where nobody knows, and how many requests wait.
type load struct{ slots, busy, queued *int }

func (l *load) add(f status.FleetFigures, queued *int) {
	l.slots, l.busy, l.queued = plus(l.slots, f.Slots), plus(l.busy, f.Busy), plus(l.queued, queued)
}

func plus(sum, v *int) *int {
	if v == nil {
		return sum
	}
	n := *v
	if sum != nil {
		n += *sum
	}
	return &n
}

// loadOf adds up one machine's models.
func (p picture) loadOf(machine string) (l load) {
	for _, m := range p.fleet.Models {
		for _, h := range m.Hosts {
			if h.Node == machine {
				l.add(h.FleetFigures, h.Queued)
			}
		}
	}
	return l
}

// load adds up the whole mesh, as far as it is known.
func (p picture) load() (l load) {
	for _, m := range p.fleet.Models {
		for _, h := range m.Hosts {
			l.add(h.FleetFigures, h.Queued)
		}
	}
	return l
}

// own adds up this machine.
func (p picture) own() (l load) {
	for _, m := range p.node.Models {
		slots, busy := 0, 0
		for _, b := range m.Backends {
			s, n := taken(b)
			slots, busy = slots+s, busy+n
		}
		l.add(status.FleetFigures{Slots: &slots, Busy: &busy}, &m.Waiting)
	}
	return l
}

// taken is how many slots a backend has, and how many of them are not free.
func taken(b status.Backend) (slots, busy int) {
	for _, s := range b.Slots {
		if s.State != "free" {
			busy++
		}
	}
	return len(b.Slots), busy
}
