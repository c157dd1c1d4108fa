package wizard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"viiwork/tsnode"
)

// device is this machine's place on the network while the wizard runs: the one that the node will have.
type device struct {
	*tsnode.Node
	cfg   tsnode.Config
	end   context.CancelFunc
	ended chan error
	fresh bool   // its folder was not there before
	top   string // the uppermost folder that was made for it; "" = none
}

// openDevice starts it. It must be closed.
func openDevice(cfg tsnode.Config) (*device, error) {
	d := &device{cfg: cfg, ended: make(chan error, 1)}
	_, err := os.Stat(d.folder())
	d.fresh = errors.Is(err, fs.ErrNotExist)
	for dir := d.folder(); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		d.top = dir
	}
	if d.Node, err = tsnode.New(cfg); err != nil {
		d.tidy()
		return nil, err
	}
	var ctx context.Context
	ctx, d.end = context.WithCancel(context.Background())
	go func() { d.ended <- d.Run(ctx) }()
	return d, nil
}

func (d *device) folder() string { return filepath.Join(d.cfg.StateDir, "tsnode") }

// look is how often a device is asked how it is; a person watches.
const look = 250 * time.Millisecond

// await waits until the device is up, and hands each new status to see.
func (d *device) await(ctx context.Context, see func(tsnode.Status)) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		see(d.Status())
		select {
		case <-d.Ready():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-d.ended:
			d.ended <- err
			return fmt.Errorf("the device ended: %w", err)
		case <-tick.C:
		}
	}
}

// close ends it and keeps what it has: the node goes on with that.
func (d *device) close() {
	d.end()
	d.ended <- <-d.ended // so that it may be closed again
}

// logoutWithin bounds the goodbye of a device that is not wanted.
const logoutWithin = 15 * time.Second

// forget takes the device back, if it was made here: logged out, and its folders removed.
func (d *device) forget() error {
	defer d.tidy()
	d.close()
	if !d.fresh || d.cfg.Network != tsnode.Tailnet {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), logoutWithin)
	defer cancel()
	return tsnode.Logout(ctx, d.cfg)
}

// tidy removes the folders that were made for it. Of those above only empty ones go.
func (d *device) tidy() {
	if !d.fresh || d.top == "" {
		return
	}
	_ = os.RemoveAll(d.folder())
	for dir := d.cfg.StateDir; len(dir) >= len(d.top); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			return
		}
	}
}
