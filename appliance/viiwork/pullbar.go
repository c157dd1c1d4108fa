package main

import (
	"fmt"
	"strings"
	"time"

	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
)

const (
	// pullDraw and pullSay are how often a bar is drawn anew, and a line says how far it is where no terminal shows a bar.
	pullDraw = 100 * time.Millisecond
	pullSay  = 30 * time.Second
	// pullTell is how long a rate is measured over: Docker tells of many layers many times a second.
	pullTell = 500 * time.Millisecond
	// pullShare is what a new measure of the rate counts for.
	pullShare = 0.2
)

// pullBar shows how much of a model or an image has come: a bar on a terminal, lines now and then elsewhere.
type pullBar struct {
	line
	cli   *cli
	from  string // the node that gives it, if one does
	last  status.Pull
	shown time.Time // last
	bps   float64   // 0 = not known

	when time.Time // the rate was measured last
	had  int64     // bytes then
}

func newPullBar(c *cli, from string) *pullBar {
	return &pullBar{line: newLine(c), cli: c, from: from}
}

func (b *pullBar) at(p status.Pull) {
	now := time.Now()
	news := p.State != b.last.State || p.File != b.last.File
	b.measure(p, now, news)
	b.last = p
	every := pullSay
	if b.out != nil {
		every = pullDraw
	}
	if !news && now.Sub(b.shown) < every {
		return
	}
	b.shown = now
	if b.out != nil {
		b.draw(b.text())
		return
	}
	b.cli.note("%s", printable(b.text()))
}

// measure begins anew with each file: what was there already came at no rate.
func (b *pullBar) measure(p status.Pull, now time.Time, anew bool) {
	took := now.Sub(b.when)
	switch {
	case anew || p.Bytes < b.had:
	case took < pullTell:
		return
	case p.State == modelcopy.StateCopying:
		rate := float64(p.Bytes-b.had) / took.Seconds()
		if b.bps == 0 {
			b.bps = rate
		}
		b.bps += pullShare * (rate - b.bps)
	}
	b.when, b.had = now, p.Bytes
}

// text is one line.
func (b *pullBar) text() string {
	p := b.last
	switch {
	case p.State == modelcopy.StateWaiting:
		return "waiting: " + b.from + " gives as many models away as it may at one time"
	case p.Size <= 0:
		return p.State
	}
	const width = 24
	full := min(width, max(0, int(width*p.Bytes/p.Size)))
	text := fmt.Sprintf("[%s%s] %s of %s", strings.Repeat("#", full), strings.Repeat("-", width-full), modelcopy.Bytes(p.Bytes), modelcopy.Bytes(p.Size))
	switch {
	case p.State == modelcopy.StateChecking:
		text += "  checking"
	case b.bps > 0:
		left := time.Duration(float64(p.Size-p.Bytes) / b.bps * float64(time.Second))
		text += fmt.Sprintf("  %s/s  %s left", modelcopy.Bytes(int64(b.bps)), left.Round(time.Second))
	}
	return text + "  " + p.File
}
