package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"viiwork/appliance/bench"
)

// bar draws one line over and over on a terminal, while a bench runs. Elsewhere it draws nothing.
type bar struct {
	out   io.Writer // nil = nobody watches
	limit time.Duration
	goal  int // turns; 0 = as many as there will be
	over  chan struct{}
	drawn sync.WaitGroup

	mu     sync.Mutex // guards what follows
	begun  time.Time
	turns  int // with the failed ones
	warm   int
	failed int
}

func newBar(c *cli, cfg bench.Config) *bar {
	b := &bar{limit: cfg.Duration, goal: cfg.Turns * cfg.Sessions, over: make(chan struct{})}
	b.out = newLine(c).out
	return b
}

// line is one that is drawn over and over on a terminal, for who watches. Elsewhere nothing is drawn.
type line struct{ out io.Writer } // nil = nobody watches

func newLine(c *cli) line {
	if isTerminal(c.Err) && !c.quiet && c.getenv("TERM") != "dumb" {
		return line{c.Err}
	}
	return line{}
}

func (l line) draw(text string) {
	if l.out != nil {
		fmt.Fprint(l.out, "\r\x1b[K"+printable(text))
	}
}

func (l line) clear() { l.draw("") }

func (b *bar) start() {
	b.mu.Lock()
	b.begun = time.Now()
	b.mu.Unlock()
	if b.out == nil {
		return
	}
	b.drawn.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-b.over:
				fmt.Fprint(b.out, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprint(b.out, "\r\x1b[K"+b.line(time.Now()))
			}
		}
	})
}

// stop takes the line away.
func (b *bar) stop() {
	close(b.over)
	b.drawn.Wait()
}

func (b *bar) add(t bench.Turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns++
	switch {
	case t.Error != "":
		b.failed++
	case t.Class() == bench.Warm:
		b.warm++
	}
}

// line is the bar and what has been seen so far.
func (b *bar) line(now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	spent := now.Sub(b.begun)
	part := 0.0
	if b.limit > 0 {
		part = float64(spent) / float64(b.limit)
	}
	if b.goal > 0 {
		part = max(part, float64(b.turns)/float64(b.goal))
	}
	text := fmt.Sprintf("%s %v  %s  %.0f%% warm", barText(part), spent.Round(time.Second),
		count(b.turns, "turn"), 100*float64(b.warm)/float64(max(1, b.turns-b.failed)))
	if b.failed > 0 {
		text += fmt.Sprintf("  %d failed", b.failed)
	}
	return text
}
