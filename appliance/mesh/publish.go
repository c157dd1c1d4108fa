package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// coalesce is how long changes are gathered before they are told: a burst of them is one line.
	coalesce = 20 * time.Millisecond
	// heartbeat is how often a stream says that nothing has changed, and how often the source is asked without being
	// told to.
	heartbeat = time.Second
)

// PublisherConfig is what a Publisher is made of.
type PublisherConfig struct {
	ID, Name, Version string // of this node
	// Source gives Draining and Models as they stand; the other fields are the Publisher's. It must not wait for an
	// engine or the network.
	Source   func() Report
	Known    *Register // what this node's backends hold; nil = that is not told
	Verifier *Verifier
	Session  *SessionKey  // told to members; nil = none
	Log      *slog.Logger // nil = silent
}

// Publisher tells this node's capacity: once to who asks (ServeHTTP), and every change to who stays.
type Publisher struct {
	cfg     PublisherConfig
	poke    chan struct{}
	now     atomic.Pointer[edition] // nil before Run
	begun   chan struct{}           // closed with the first edition
	ended   chan struct{}
	ran     atomic.Bool
	streams streams
	tooBig  bool // already said; Run's own
}

// edition is one report as it goes out. It is never changed.
type edition struct {
	report Report
	held   []*Resident
	whole  []byte        // the line that says it all
	change []byte        // the line that says it to who has the edition before; nil = there is none
	next   chan struct{} // closed when there is a newer one
}

// NewPublisher makes a Publisher that says nothing yet.
func NewPublisher(cfg PublisherConfig) *Publisher {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Publisher{
		cfg: cfg, poke: make(chan struct{}, 1), begun: make(chan struct{}), ended: make(chan struct{}),
		streams: streams{open: map[string]*stream{}, said: map[string]time.Time{}},
	}
}

// Changed says that the source may have something new. It never waits.
func (p *Publisher) Changed() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends; then all streams end. It may be called once.
func (p *Publisher) Run(ctx context.Context) error {
	if p.ran.Swap(true) {
		return errors.New("publishing the capacity: it has run already")
	}
	defer close(p.ended)
	epoch := uint64(time.Now().UnixMilli())
	p.publish(epoch)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-p.poke:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(coalesce):
			}
		}
		p.publish(epoch)
	}
}

// publish makes a new edition if there is anything new.
func (p *Publisher) publish(epoch uint64) {
	r := p.cfg.Source()
	r.Wire, r.ID, r.Name, r.Version, r.Epoch, r.Seq = Wire, p.cfg.ID, p.cfg.Name, p.cfg.Version, epoch, 1
	r.Session = p.cfg.Session.tell()
	if r.Models == nil {
		r.Models = []Model{}
	}
	e := &edition{report: r, next: make(chan struct{})}
	if p.cfg.Known != nil {
		e.held = p.cfg.Known.told()
	}
	was := p.now.Load()
	if was != nil {
		e.report.Seq = was.report.Seq + 1
		if c, ok := diff(&was.report, &e.report); ok {
			if len(c.Models) == 0 {
				if slices.Equal(e.held, was.held) {
					return
				}
				e.report.Seq = was.report.Seq
			} else {
				e.change = encode(line{Change: c})
			}
		}
	}
	e.whole = encode(line{Report: &e.report})
	if err := e.report.check(); err != nil || len(e.whole) > maxReport {
		if !p.tooBig {
			p.cfg.Log.Error("this node's capacity cannot be told to the mesh: it has more models than a report holds, or one without a name", "bytes", len(e.whole), "error", err)
		}
		p.tooBig = true
		return
	}
	p.tooBig = false
	p.now.Store(e)
	if was != nil {
		close(was.next)
		return
	}
	close(p.begun)
}

// encode gives one line. What it encodes holds nothing that has no JSON: check has refused NaN.
func encode(l line) []byte {
	b, err := json.Marshal(l)
	if err != nil {
		return nil
	}
	return append(b, '\n')
}

// document is the edition as a single JSON document, in the given wire version.
func (e *edition) document(wire int) []byte {
	r := e.report
	r.Wire = min(wire, Wire)
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		return nil
	}
	return b.Bytes()
}
