package top

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// Screen is a screen without a terminal: what would be on it, and keys for it.
type Screen struct{ s *screen }

// NewScreen makes one of so many columns and lines over what cfg gets.
func NewScreen(ctx context.Context, cfg Config, wide, high int) (Screen, error) {
	p, err := cfg.read(ctx, cfg.Mesh)
	s := newScreen(cfg, newJobs(ctx), p)
	s.Update(tea.WindowSizeMsg{Width: wide, Height: high})
	return Screen{s}, err
}

// Frame is the whole screen.
func (x Screen) Frame() string { return x.s.View().Content }

// Chosen is the row that is.
func (x Screen) Chosen() string {
	r, _ := x.s.pane().chosen()
	return r.key
}

// Press types keys; what they ask the node for is answered before it returns.
func (x Screen) Press(keys ...tea.KeyPressMsg) {
	for _, k := range keys {
		x.settle(x.s.pressed(k))
	}
}

func (x Screen) settle(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if msg := cmd(); msg != nil {
		x.s.Update(msg)
	}
}

// Read takes the next picture.
func (x Screen) Read() { x.settle(x.s.read()) }

// Clean is what is left of a text for the screen.
var Clean = clean

// Width is the columns it takes there.
var Width = width
