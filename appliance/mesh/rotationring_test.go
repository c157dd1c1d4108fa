package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
)

// ring is a node's gossip as far as its keys go: two at most, and only what is there can be used.
type ring struct {
	mu   sync.Mutex
	keys [][]byte
}

func (r *ring) InstallKey(_ context.Context, key []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.at(key) >= 0:
		return nil
	case len(r.keys) >= 2:
		return errors.New("two already")
	}
	r.keys = append(r.keys, key)
	return nil
}

func (r *ring) UseKey(_ context.Context, key []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.at(key)
	if i < 0 {
		return errors.New("not installed")
	}
	r.keys[0], r.keys[i] = r.keys[i], r.keys[0]
	return nil
}

func (r *ring) RemoveKey(_ context.Context, key []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.at(key)
	if i == 0 {
		return errors.New("in use")
	}
	if i > 0 {
		r.keys = slices.Delete(r.keys, i, i+1)
	}
	return nil
}

func (r *ring) at(key []byte) int {
	return slices.IndexFunc(r.keys, func(k []byte) bool { return bytes.Equal(k, key) })
}

// understands reports whether r can read what other sends.
func (r *ring) understands(other *ring) bool {
	other.mu.Lock()
	key := other.keys[0]
	other.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at(key) >= 0
}
