package serf

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// ring is the keys of this node: the one it encrypts with, and at most one other that it understands. Two are enough
// for a change of the secret, and removing the last of two is the only removal that the library does without moving
// keys under a reader's eyes.
type ring struct{ keys *memberlist.Keyring }

func newRing(key, prev []byte) (*ring, error) {
	var others [][]byte
	if len(prev) > 0 {
		others = append(others, bytes.Clone(prev))
	}
	keys, err := memberlist.NewKeyring(others, bytes.Clone(key))
	if err != nil {
		return nil, fmt.Errorf("taking the gossip key: %w", err)
	}
	return &ring{keys}, nil
}

// InstallKey makes this node understand a second key, so that others may begin to use it.
func (c *Cluster) InstallKey(ctx context.Context, key []byte) error {
	return c.turn(ctx, "installing a gossip key", func(r *ring) error {
		if len(key) != keySize {
			return fmt.Errorf("it has %d bytes and not %d", len(key), keySize)
		}
		if r.has(key) {
			return nil
		}
		if len(r.keys.GetKeys()) >= 2 {
			return errors.New("there are two already: remove the unused one, since one change must end before the next")
		}
		return r.keys.AddKey(bytes.Clone(key))
	})
}

// UseKey makes this node encrypt with an installed key. Every member must have installed it before the first uses it.
func (c *Cluster) UseKey(ctx context.Context, key []byte) error {
	return c.turn(ctx, "using a gossip key", func(r *ring) error {
		if !r.has(key) {
			return errors.New("it is not installed here: install it everywhere first")
		}
		return r.keys.UseKey(key)
	})
}

// RemoveKey makes this node forget a key that it does not use. Every member must use the other one before.
func (c *Cluster) RemoveKey(ctx context.Context, key []byte) error {
	return c.turn(ctx, "removing a gossip key", func(r *ring) error {
		if bytes.Equal(key, r.keys.GetPrimaryKey()) {
			return errors.New("it is in use here: use another one first")
		}
		return r.keys.RemoveKey(key)
	})
}

// turn changes the ring, one change at a time. No error has a key in it.
func (c *Cluster) turn(ctx context.Context, what string, act func(*ring) error) error {
	if _, err := c.library(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c.mu.Lock()
	r := c.ring
	c.mu.Unlock()
	if r == nil {
		return fmt.Errorf("%s: this mesh is open and has none: give every node a secret first", what)
	}
	c.ringing.Lock()
	defer c.ringing.Unlock()
	if err := act(r); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (r *ring) has(key []byte) bool {
	for _, k := range r.keys.GetKeys() {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return false
}
