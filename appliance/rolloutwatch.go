package appliance

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"time"

	"viiwork/appliance/config"
	"viiwork/update/rollout"
)

const (
	// lookout is how often it is looked for members that were off, newsEach times that for a newer release.
	lookout  = time.Minute
	newsEach = 60
	// leftAlone is how long one that was begun by itself lies before another node takes it up, catchUp how long it is remembered.
	leftAlone = 5 * time.Minute
	catchUp   = 7 * 24 * time.Hour
)

// watch wants to be led what nobody has to ask for: newer releases where update.auto says so, and members that were off.
func (r *rollouts) watch(ctx context.Context) error {
	every := cmp.Or(r.a.options.Lookout, lookout)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var looked, alone time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		f := r.a.mesh.current()
		cfg := r.a.current().Update
		window, _ := config.ParseWindow(cfg.Window)
		roll, held := r.known()
		if held || roll.Stage != rollout.Running {
			alone = time.Time{}
		} else if alone.IsZero() {
			alone = time.Now()
		}
		mine := roll.Lead == f.id
		open := !roll.Auto || cfg.Auto && window.Open(time.Now())
		switch {
		case held:
		case roll.Stage == rollout.Running && roll.Auto && cfg.Auto && time.Since(alone) > leftAlone:
			r.want(wish{version: roll.Version, auto: true})
		case roll.Stage == rollout.Ended && mine && open && time.Since(roll.Begun) < catchUp && roll.Behind(gossiped(f)) != nil:
			r.want(wish{catch: true})
		case roll.Stage != rollout.Running && cfg.Auto && window.Open(time.Now()) && time.Since(looked) > newsEach*every+stagger(f.id, every):
			looked = time.Now()
			r.wantNewest(ctx, roll)
		}
	}
}

// stagger keeps nodes from looking at one moment.
func stagger(id string, every time.Duration) time.Duration {
	h := fnv.New32()
	_, _ = h.Write([]byte(id))
	return every * time.Duration(h.Sum32()%300) / newsEach
}

// wantNewest wants the newest release led, unless the last roll-out was to it or this node went back from it.
func (r *rollouts) wantNewest(ctx context.Context, last rollout.Roll) {
	version, err := r.install.Newest(ctx)
	switch {
	case err != nil:
		r.a.log.Warn("looking for a newer release", "error", err)
	case version == "" || version == last.Version || version == r.install.Installed().Bad || !rollout.Older(r.a.options.Version, version):
	default:
		r.want(wish{version: version, auto: true})
	}
}

var errNoNewer = errors.New("nothing is newer: 'viiwork update --check' says what there is")

// wanted is the version to bring the mesh to.
func (r *rollouts) wanted(ctx context.Context, version string) (string, error) {
	if version != "" {
		return version, rollout.CheckVersion(version)
	}
	newest, err := r.install.Newest(ctx)
	if err != nil {
		return "", err
	}
	if cmp.Or(newest, r.a.options.Version) == r.a.options.Version { // this one has it: others may not
		if rollout.CheckVersion(r.a.options.Version) != nil {
			return "", errNoNewer
		}
		return r.a.options.Version, nil
	}
	return newest, nil
}
