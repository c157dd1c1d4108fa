package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/engine/docker"
	"viiwork/update/install"
	"viiwork/update/swap"
)

// boxInstaller is what replaces the container of this node while a roll-out of the mesh goes on: the same as 'viiwork update'
// in it.
type boxInstaller struct {
	c      *cli
	cfg    *config.Config // it started with
	path   string
	docker *docker.Runner

	mu      sync.Mutex // guards what follows
	looked  time.Time  // when Docker was asked last what this container is; zero = it has answered
	refuses string
	ready   *swap.Ready
}

// Docker may take homeWithin to tell what this container is while the node starts. Docker itself may be starting then, so it is
// asked again later, quickly, when somebody wants to know.
const (
	homeWithin = 10 * time.Second
	homeAgain  = 30 * time.Second
	homeSoon   = 2 * time.Second
)

// newBoxInstaller looks whether this runs in a container; nil = it does not.
func (c *cli) newBoxInstaller(ctx context.Context, cfg *config.Config, path string) *boxInstaller {
	quiet := *c // the node's own log tells of it
	quiet.quiet, quiet.yes = true, true
	i := &boxInstaller{c: &quiet, cfg: cfg, path: path, docker: docker.New(dockerOf(cfg))}
	if !i.find(ctx, homeWithin) {
		i.docker.Close()
		return nil
	}
	return i
}

// find notes why this container cannot be replaced, if so. False = this is none, or one of another Docker.
func (i *boxInstaller) find(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	home, err := i.docker.Home(ctx)
	if err == nil && home == nil {
		return false
	}
	looked := time.Now()
	if home != nil {
		var o swap.Order
		looked = time.Time{}
		if o, err = i.order(home); err == nil {
			err = o.Self.Check()
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refuses, i.looked = "", looked; err != nil {
		i.refuses = err.Error()
	}
	return true
}

// order is a swap of this container as it is now.
func (i *boxInstaller) order(home *docker.Home) (swap.Order, error) {
	o, err := i.c.boxOrder(i.cfg, i.path, home)
	o.Self.Args = nodeArgs(os.Getpid())
	return o, err
}

func (i *boxInstaller) Newest(ctx context.Context) (string, error) { return i.c.newest(ctx, i.cfg) }

// Install leaves the container that runs as it is: what is prepared is kept here, and lost with this process.
func (i *boxInstaller) Install(ctx context.Context, o appliance.InstallOrder) error {
	found, err := i.c.verified(ctx, i.cfg, o.Version)
	if err != nil {
		return err
	}
	home, err := i.docker.Home(ctx)
	if err == nil && home == nil {
		err = errors.New("this node's container is unknown to Docker by now: look with 'docker ps -a'")
	}
	if err != nil {
		return err
	}
	swapping, err := i.order(home)
	if err != nil {
		return err
	}
	swapping.Release, swapping.Named, swapping.Fetched = found, o.Named, o.Said
	ready, err := swap.Prepare(ctx, swapConfig(i.docker, i.cfg.Node.StateDir), swapping)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ready = ready
	return nil
}

// Restart has a helper end this container and start the next in its place.
func (i *boxInstaller) Restart(ctx context.Context) error {
	i.mu.Lock()
	ready := i.ready
	i.ready = nil
	i.mu.Unlock()
	if ready == nil {
		return errors.New("nothing is prepared to take this container's place")
	}
	return ready.Begin(ctx)
}

func (i *boxInstaller) Installed() (is appliance.Installed) {
	i.mu.Lock()
	again := !i.looked.IsZero() && time.Since(i.looked) > homeAgain
	i.mu.Unlock()
	if again {
		i.find(context.Background(), homeSoon)
	}
	i.mu.Lock()
	is.Refuses = i.refuses
	i.mu.Unlock()
	folder := swap.At(i.cfg.Node.StateDir)
	p, err := folder.Plan()
	s, odd := folder.State()
	if err = errors.Join(err, odd); err != nil {
		is.Refuses = err.Error()
		return is
	}
	if p != nil {
		is.Trial = planText(p)
	}
	tellBad(&is, s.Bad)
	return is
}

// planText says how far a swap is.
func planText(p *swap.Plan) string {
	return trialText(install.Trial{Version: p.Version, Previous: p.From, Stage: p.Stage, Detail: p.Detail, Failed: p.Failed, Since: p.Since})
}
