package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	probeTime = 60 * time.Second
	// probeAge is how long a probe is believed. An image's name may come to mean another image, so it is not for ever;
	// the backends of one boot share it.
	probeAge = time.Minute
)

// probes remembers which build each program is.
type probes struct {
	mu  sync.Mutex
	all map[string]*probe
}

type probe struct {
	sem      chan struct{} // one prober at a time
	at       time.Time     // zero = nothing known
	build    Build
	identity string // digest of the build
}

// build asks the model's program for its version and flags.
func (p *probes) build(ctx context.Context, r Runner, d Dialect, m Model) (Build, string, error) {
	pr := p.entry(fmt.Sprintf("%s\x00%s\x00%s", m.Runner, m.Image, m.Binary))
	select {
	case pr.sem <- struct{}{}:
		defer func() { <-pr.sem }()
	case <-ctx.Done():
		return Build{}, "", context.Cause(ctx)
	}
	if !pr.at.IsZero() && time.Since(pr.at) < probeAge {
		return pr.build, pr.identity, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	version, err := r.Probe(ctx, m, "--version")
	if err != nil {
		return Build{}, "", fmt.Errorf("asking the engine program for its version: %w", err)
	}
	help, err := r.Probe(ctx, m, "--help")
	if err != nil {
		return Build{}, "", fmt.Errorf("asking the engine program for its flags: %w", err)
	}
	build, err := d.Build(version, help)
	if err != nil {
		return Build{}, "", fmt.Errorf("reading what the engine program says about itself: %w", err)
	}
	pr.build, pr.identity, pr.at = build, identify(build), time.Now()
	return pr.build, pr.identity, nil
}

// identify digests a build. What the program printed word for word would not do: it may name today's free memory.
func identify(b Build) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d", b.Version, b.Number)
	for _, flag := range slices.Sorted(maps.Keys(b.Flags)) {
		fmt.Fprintf(h, " %s", flag)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (p *probes) entry(key string) *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]*probe{}
	}
	if p.all[key] == nil {
		p.all[key] = &probe{sem: make(chan struct{}, 1)}
	}
	return p.all[key]
}
