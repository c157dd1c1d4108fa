package main

import (
	"fmt"
	"io"
	"strings"

	"viiwork/appliance/status"
)

// loadBar shows how far models are loaded: one line over and over on a terminal, else a line at each change of state.
type loadBar struct {
	c     *cli
	live  bool // a terminal
	said  map[string]string
	drawn bool
}

func newLoadBar(c *cli) *loadBar {
	return &loadBar{c: c, live: isTerminal(c.Err) && c.getenv("TERM") != "dumb", said: map[string]string{}}
}

func (b *loadBar) tell(own status.Node) {
	if b.c.quiet {
		return
	}
	var parts []string
	for _, m := range own.Models {
		for _, backend := range m.Backends {
			b.change(backend)
			parts = append(parts, fmt.Sprintf("%s %s", printable(backend.ID), barOf(backend)))
		}
	}
	if b.live && len(parts) > 0 {
		const shown = 3 // a line is no place for ten
		if len(parts) > shown {
			parts = append(parts[:shown], fmt.Sprintf("and %d more", len(parts)-shown))
		}
		fmt.Fprintf(b.c.Err, "\r\x1b[K%s", strings.Join(parts, "  "))
		b.drawn = true
	}
}

// change says once that a backend is in another state.
func (b *loadBar) change(backend status.Backend) {
	if b.said[backend.ID] == backend.State {
		return
	}
	b.said[backend.ID] = backend.State
	b.stop()
	text := backend.State
	if backend.Error != "" {
		text += ": " + backend.Error
	}
	b.c.note("%s: %s", printable(backend.ID), printable(text))
}

func barOf(b status.Backend) string {
	if b.Progress == nil {
		return b.State
	}
	const width = 20
	full := min(max(int(width**b.Progress), 0), width)
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat("-", width-full), 100**b.Progress)
}

// stop takes the line away.
func (b *loadBar) stop() {
	if b.drawn {
		_, _ = io.WriteString(b.c.Err, "\r\x1b[K")
		b.drawn = false
	}
}
