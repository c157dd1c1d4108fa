package gpu

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// LiveConfig says how a [Live] looks at the cards.
type LiveConfig struct {
	// Read returns the cards with new readings, and what is wrong: as [Host.Read].
	Read  func(ctx context.Context, cards []Card) ([]Card, []Fault)
	Every time.Duration // between two looks; 0 = 5 s
	Log   *slog.Logger  // nil = silent
}

// Live keeps the readings of a node's cards fresh. A look that takes long is waited for, and none is begun beside it, so
// a driver that hangs costs one program and no more; until it answers the readings are unknown.
type Live struct {
	cfg  LiveConfig
	news chan struct{} // holds one: there are other cards

	mu     sync.Mutex // guards all below
	round  int        // of the cards: a look at older ones is thrown away
	cards  []Card
	faults []Fault
}

const (
	liveEvery = 5 * time.Second
	liveStale = 4 // looks that a reading outlives while the next one is awaited
)

// NewLive makes a Live without cards.
func NewLive(cfg LiveConfig) *Live {
	if cfg.Every == 0 {
		cfg.Every = liveEvery
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Live{cfg: cfg, news: make(chan struct{}, 1)}
}

// Watch says which cards there are from now on. They show the readings they come with until the next look.
func (l *Live) Watch(cards []Card) {
	l.mu.Lock()
	l.round++
	l.cards, l.faults = slices.Clone(cards), nil
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Cards returns the cards as they were seen last. The caller may keep the slice.
func (l *Live) Cards() []Card {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.cards)
}

// Faults returns what the last look found wrong.
func (l *Live) Faults() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

// Run looks until ctx ends, and returns nil then. Should the kernel hold a look even then, it is left behind.
func (l *Live) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Every)
	defer tick.Stop()
	var looking chan struct{}
	missed := 0
	for {
		select {
		case <-ctx.Done():
			if looking != nil {
				l.leave(looking)
			}
			return nil
		case <-looking:
			looking, missed = nil, 0
			continue
		case <-tick.C:
		case <-l.news:
		}
		if looking != nil {
			if missed++; missed == liveStale {
				l.forget()
			}
			continue
		}
		looking = l.begin(ctx)
	}
}

// leave waits for what ctx has already ended.
func (l *Live) leave(looking chan struct{}) {
	patience := time.NewTimer(2 * killGrace)
	defer patience.Stop()
	select {
	case <-looking:
	case <-patience.C:
		l.cfg.Log.Warn("a graphics driver does not answer and is left behind")
	}
}

// begin starts one look; the channel is closed when it is over. There is none without cards.
func (l *Live) begin(ctx context.Context) chan struct{} {
	l.mu.Lock()
	round, cards := l.round, slices.Clone(l.cards)
	l.mu.Unlock()
	if len(cards) == 0 {
		return nil
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		read, faults := l.cfg.Read(ctx, cards)
		if ctx.Err() == nil {
			l.keep(round, read, faults)
		}
	}()
	return over
}

// keep stores what a look found; each fault is logged when it is new.
func (l *Live) keep(round int, cards []Card, faults []Fault) {
	l.mu.Lock()
	before, ours := l.faults, round == l.round
	if ours {
		l.cards, l.faults = cards, faults
	}
	l.mu.Unlock()
	for _, f := range faults {
		if ours && !f.Minor && !slices.Contains(before, f) {
			l.cfg.Log.Warn("graphics card", "id", f.ID, "fault", f.Text, "fix", f.Fix)
		}
	}
}

// forget drops readings that are older than what they would be taken for.
func (l *Live) forget() {
	l.mu.Lock()
	l.cards = slices.Clone(l.cards) // the old slice may be with a caller
	for i := range l.cards {
		l.cards[i].Reading = Reading{}
	}
	l.mu.Unlock()
	l.cfg.Log.Warn("a graphics driver does not answer: its cards' figures are unknown until it does")
}
