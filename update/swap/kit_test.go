package swap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/update/install"
	"viiwork/update/swap"
)

const (
	oldImage = "sha256:old"
	newImage = "sha256:new"
)

// behaviour is what a node of an image does.
type behaviour struct {
	version  string
	ready    int                                    // backends of its one model
	mute     bool                                   // it does not answer at all
	fails    bool                                   // it serves, but no completion
	diesIn   time.Duration                          // of its start; 0 = never
	unstarts bool                                   // Docker cannot start it
	against  string                                 // what it has against the configuration
	ages     func(age time.Duration, is *behaviour) // what becomes of it; nil = nothing
}

// at is what it does at an age.
func (b behaviour) at(age time.Duration) behaviour {
	if b.ages != nil {
		b.ages(age, &b)
	}
	return b
}

// vessel is a container of the daemon.
type vessel struct {
	swap.BoxState
	box     swap.Box
	stopped bool // by somebody's word: its policy does not bring it back with Docker
}

// daemon is as much of Docker as a swap touches, with nodes in its containers.
type daemon struct {
	t *testing.T

	mu      sync.Mutex
	next    int
	vessels map[string]*vessel
	images  map[string]behaviour
	content map[string][]string
	tags    map[string]string
	acts    int
	// before and after are called around the n-th act that changes something.
	before, after func(n int) error
}

// newDaemon has a node in a container, and an engine beside it.
func newDaemon(t *testing.T) *daemon {
	d := &daemon{
		t: t, vessels: map[string]*vessel{},
		images:  map[string]behaviour{oldImage: {version: "v1.0.0", ready: 2}, newImage: {version: "v1.1.0", ready: 2}},
		content: map[string][]string{oldImage: {"sha256:a"}, newImage: {"sha256:b"}},
		tags:    map[string]string{"viiwork:latest": oldImage},
	}
	d.put("node", swap.Box{Name: "viiwork", Image: oldImage, Restart: "unless-stopped"}, true)
	d.put("engine", swap.Box{Name: "viiwork-attic-m-0", Image: "sha256:engine", Labels: map[string]string{"viiwork.state": "1"}}, true)
	return d
}

func (d *daemon) put(id string, b swap.Box, running bool) *vessel {
	v := &vessel{BoxState: swap.BoxState{ID: id, Name: b.Name, Image: b.Image, Labels: b.Labels, Running: running}, box: b}
	if running {
		v.Started = time.Now()
	}
	d.vessels[id] = v
	return v
}

// act counts what changes something.
func (d *daemon) act(what func() error) error {
	d.mu.Lock()
	d.acts++
	n, before, after := d.acts, d.before, d.after
	d.mu.Unlock()
	if before != nil {
		if err := before(n); err != nil {
			return err
		}
	}
	d.mu.Lock()
	err := what()
	d.mu.Unlock()
	if err == nil && after != nil {
		err = after(n)
	}
	return err
}

func (d *daemon) find(name string) *vessel {
	if v, ok := d.vessels[name]; ok {
		return v
	}
	for _, v := range d.vessels {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func (d *daemon) LookAt(ctx context.Context, name string) (swap.BoxState, error) {
	if err := ctx.Err(); err != nil {
		return swap.BoxState{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.find(name)
	if v == nil {
		return swap.BoxState{}, fmt.Errorf("container %s: %w", name, fs.ErrNotExist)
	}
	d.age(v)
	return v.BoxState, nil
}

// age lets a node die whose time has come, and its policy start it again.
func (d *daemon) age(v *vessel) {
	dies := d.images[v.Image].diesIn
	for v.Running && dies > 0 && time.Since(v.Started) >= dies {
		v.Exit = 3
		if v.box.Restart == "" {
			v.Running = false
			return
		}
		v.Started, v.Starts = v.Started.Add(dies), v.Starts+1
	}
}

func (d *daemon) MakeBox(_ context.Context, b swap.Box) (id string, err error) {
	err = d.act(func() error {
		if d.find(b.Name) != nil {
			return errors.New("the name is taken")
		}
		d.next++
		id = fmt.Sprintf("made%d", d.next)
		d.put(id, b, false)
		return nil
	})
	return id, err
}

func (d *daemon) RenameBox(_ context.Context, id, name string) error {
	d.mu.Lock()
	v := d.find(id)
	same := v != nil && v.Name == name
	d.mu.Unlock()
	if same {
		return nil
	}
	return d.act(func() error {
		if v == nil || d.find(name) != nil {
			return errors.New("no such container, or the name is taken")
		}
		v.Name = name
		return nil
	})
}

func (d *daemon) RemoveBox(_ context.Context, id string) error {
	return d.act(func() error { delete(d.vessels, id); return nil })
}

func (d *daemon) StartBox(_ context.Context, id string) error {
	return d.act(func() error {
		v := d.find(id)
		switch {
		case v == nil:
			return errors.New("no such container")
		case d.images[v.Image].unstarts:
			return errors.New("could not select device driver")
		case !v.Running:
			v.Running, v.Started, v.stopped = true, time.Now(), false
		}
		return nil
	})
}

func (d *daemon) StopBox(_ context.Context, id string, _ time.Duration) error {
	return d.act(func() error {
		if v := d.find(id); v != nil {
			v.Running, v.stopped = false, true
		}
		return nil
	})
}

// restart is what becomes of containers when Docker is started anew. One that was killed may bring back none.
func (d *daemon) restart(killed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.vessels {
		if v.Running {
			v.Running = v.box.Restart != "" && !killed
			v.Started = time.Now()
		}
	}
}

func (d *daemon) TryBox(_ context.Context, b swap.Box) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is, ok := d.images[b.Image]
	if !ok {
		return "", errors.New("no such image")
	}
	if b.Args[0] == "version" {
		return fmt.Sprintf(`{"version":%q}`, is.version), nil
	}
	if is.against != "" {
		return is.against, errors.New("exit status 1")
	}
	return "", nil
}

func (d *daemon) LoadImage(_ context.Context, archive io.Reader) error {
	_, err := io.Copy(io.Discard, archive)
	return err
}

func (d *daemon) ImageContent(_ context.Context, ref string) (string, []string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.tags[ref]; ok {
		ref = id
	}
	if c, ok := d.content[ref]; ok {
		return ref, c, nil
	}
	return "", nil, fmt.Errorf("image %s: %w", ref, fs.ErrNotExist)
}

func (d *daemon) Tag(_ context.Context, id, name string) error {
	return d.act(func() error { d.tags[name] = id; return nil })
}

func (d *daemon) ForgetImage(_ context.Context, name string) error {
	return d.act(func() error { delete(d.tags, name); return nil })
}

// running is the node that runs and may use the state directory; two at once would be a defect of the swap.
func (d *daemon) running() *vessel {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []*vessel
	for _, v := range d.vessels {
		if d.age(v); v.Running && d.images[v.Image].version != "" && !strings.HasSuffix(v.Name, ".swap") {
			found = append(found, v)
		}
	}
	if len(found) > 1 {
		d.t.Errorf("%d nodes run at once: %s and %s", len(found), found[0].Name, found[1].Name)
	}
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// Look and Complete are the node's.
func (d *daemon) Look(context.Context) (install.Sight, error) {
	v := d.running()
	if v == nil {
		return install.Sight{}, errors.New("connection refused")
	}
	is := d.images[v.Image].at(time.Since(v.Started))
	if is.mute {
		return install.Sight{}, errors.New("connection refused")
	}
	return install.Sight{PID: 1, Version: is.version, Ready: map[string]int{"m": is.ready}}, nil
}

func (d *daemon) Complete(context.Context, string) error {
	if v := d.running(); v == nil || d.images[v.Image].at(time.Since(v.Started)).fails {
		return errors.New("502 engine")
	}
	return nil
}

func (d *daemon) config(dir string) swap.Config {
	return swap.Config{StateDir: dir, Boxes: d, Power: d, Images: d, Node: func(string, string) install.Node { return d }}
}

func self() swap.Self {
	return swap.Self{
		ID: "node", Name: "viiwork", Image: oldImage, ImageName: "viiwork:latest", Restart: "unless-stopped", HostNetwork: true,
		Binds: []string{"/var/lib/viiwork:/var/lib/viiwork"}, Needs: []string{"/var/lib/viiwork"},
		UID: 1000, GID: 1000, Groups: []int{1000, 998}, Program: "/usr/bin/viiwork", Args: []string{"serve"}, Grace: 45 * time.Second,
	}
}

// begin makes the plan of a swap to the new image, as one goes back to an image of before.
func (d *daemon) begin(dir string) {
	d.t.Helper()
	d.beginAs(dir, self())
}

func (d *daemon) beginAs(dir string, own swap.Self) {
	d.t.Helper()
	if err := swap.Remember(dir, swap.State{Previous: &swap.Kept{Version: "v1.1.0", Image: newImage}}); err != nil {
		d.t.Fatal(err)
	}
	err := swap.Begin(d.t.Context(), d.config(dir), swap.Order{
		Self: own, From: "v1.0.0", Socket: "/var/lib/viiwork/viiwork.sock", Node: "attic", Patience: 2 * time.Minute, Watch: 30 * time.Second,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.acts = 0
}

// names are those of all containers, with a mark for one that runs.
func (d *daemon) names() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]string{}
	for v := range maps.Values(d.vessels) {
		all[v.Name] = v.Image
		if v.Running {
			all[v.Name] += " runs"
		}
	}
	return all
}
