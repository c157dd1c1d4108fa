package sim

import (
	"context"
	"fmt"
	"math"
	"slices"

	"viiwork/appliance/route"
)

// Config says what to simulate. The zero value of a field means what its comment says.
type Config struct {
	Policy   Policy  // one of Policies; Table needs none
	Fleet    string  // one of Fleets; "" = blog
	Load     float64 // 1 = warm turns would just fill all slots
	Sessions int     // agents; 0 = as the load says
	Headers  string  // whether clients name their sessions: all ("" too) or none
	KV       string  // whether caches move: off ("" too), pull, replicate
	Seed     uint64
	Hours    float64 // to measure, after a quarter of an hour to warm up; 0 = 1

	OneEntry bool           // all requests come in by the first node
	Forget   bool           // no affinity
	Flat     bool           // classic goes by free slots, not by speed
	Weights  *route.Weights // nil = the product's
}

// Validate says what of it cannot be simulated.
func (c Config) Validate() error {
	_, _, err := c.complete()
	return err
}

const (
	warmUp      = 900.0 // s before anything is counted
	maxLoad     = 4.0
	maxSessions = 5000
	maxHours    = 24.0
)

// complete fills in what zero means, and says what cannot be.
func (c Config) complete() (Config, fleet, error) {
	if c.Fleet == "" {
		c.Fleet = "blog"
	}
	f, err := named(c.Fleet)
	if err != nil {
		return c, f, err
	}
	if c.Headers == "" {
		c.Headers = "all"
	}
	if c.KV == "" {
		c.KV = "off"
	}
	if c.Hours == 0 {
		c.Hours = 1
	}
	switch {
	case !(c.Load > 0 && c.Load <= maxLoad):
		return c, f, fmt.Errorf("a load of %v cannot be simulated: give one above 0 and up to %v", c.Load, maxLoad)
	case !slices.Contains([]string{"all", "none"}, c.Headers):
		return c, f, fmt.Errorf("headers are all or none, not %q", c.Headers)
	case !slices.Contains([]string{"off", "pull", "replicate"}, c.KV):
		return c, f, fmt.Errorf("kv is off, pull or replicate, not %q", c.KV)
	case !(c.Hours > 0 && c.Hours <= maxHours):
		return c, f, fmt.Errorf("%v hours cannot be simulated: give more than 0 and up to %v", c.Hours, maxHours)
	}
	if c.Sessions == 0 {
		c.Sessions = max(1, f.sessions(c.Load))
	}
	if c.Sessions < 0 || c.Sessions > maxSessions {
		return c, f, fmt.Errorf("%d sessions cannot be simulated: give up to %d", c.Sessions, maxSessions)
	}
	return c, f, nil
}

// Run simulates one policy.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, f, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	if !slices.Contains(Policies(), cfg.Policy) {
		return Result{}, fmt.Errorf("there is no policy %q: name one of %q", cfg.Policy, Policies())
	}
	if cfg.Policy == Oracle {
		cfg.KV = "off" // it has every cache everywhere
		if cfg.Weights == nil {
			w := route.UsualWeights()
			w.Decode = 1
			cfg.Weights = &w
		}
	}
	w := newWorld(cfg, f)
	end := warmUp + cfg.Hours*3600
	for t := 0.0; t < end; t += 60 {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		w.run(math.Min(t+60, end))
	}
	return w.tally.result(), nil
}
