package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/appliance/setup/wizard"
	"viiwork/appliance/status"
	"viiwork/engine/docker"
	"viiwork/images"
)

// lookAtDocker sees whether containers can be started here, which engine images there are, and what compose lacks.
func lookAtDocker(ctx context.Context, s *wizard.Sight) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	runner := docker.New(docker.Config{Node: "init", StateDir: "/nonexistent", UID: os.Getuid(), GID: os.Getgid()})
	defer runner.Close()
	if err := runner.Ping(ctx); err != nil {
		s.Docker = err.Error()
		s.Compose = []string{"have Docker answer this user: " + s.Docker}
		return
	}
	s.Images = map[string]bool{}
	for _, e := range images.Catalogue() {
		id, err := runner.ImageID(ctx, e.Ref())
		s.Images[e.Name] = err == nil && id != ""
	}
	if _, err := setup.Command(ctx, "docker", "compose", "version"); err != nil {
		s.Compose = append(s.Compose, "install Docker's compose plugin: 'docker compose version' must answer")
	}
	if _, err := runner.ImageID(ctx, wizard.ComposeImage); errors.Is(err, fs.ErrNotExist) {
		s.Compose = append(s.Compose, "make the node's image: 'make appliance-image' in viiwork's sources")
	}
}

// started is a setup whose files are written.
type started struct {
	draft  wizard.Setup
	sight  wizard.Sight
	prompt wizard.Prompter // nil = nobody is there
}

// start makes the machine run the node, watches its models load, and proves that all is well.
func (c *cli) start(ctx context.Context, s started) error {
	path := s.sight.Path
	if path == "" {
		path = s.sight.Machine.Layout().Config
	}
	cfg, err := c.loadFrom(path)
	if err != nil {
		return err
	}
	if len(s.draft.Todo) > 0 {
		c.note("the files are written. Before the node is started:\n  %s\nThen start it: %s", strings.Join(s.draft.Todo, "\n  "), s.howToStart(path))
		return nil
	}
	err = setup.Enable(ctx, s.draft.Machine, setup.Command)
	switch {
	case errors.Is(err, setup.ErrByHand) && c.runs(ctx, cfg):
		c.note("the files are written, and the node runs as before: a SIGHUP makes it take its models from them, a new start all the rest; then 'viiwork accept' proves it")
		return nil
	case errors.Is(err, setup.ErrByHand) && s.prompt == nil:
		c.note("the files are written; %v: start the node with %s, and have that done at every start of the machine", setup.ErrByHand, s.draft.Machine.Start(path))
		return nil
	case errors.Is(err, setup.ErrByHand):
		c.note("\nThe files are written. %s\nStart the node in another terminal: %s\nI wait for it; Ctrl-C leaves, and all is set up.", strings.ToUpper(setup.ErrByHand.Error()[:1])+setup.ErrByHand.Error()[1:]+".", s.draft.Machine.Start(path))
	case err != nil:
		return fmt.Errorf("the files are written, and the node is not started: %w", err)
	}
	w := patience(cfg)
	if errors.Is(err, setup.ErrByHand) {
		w.up = 0
	}
	if err := c.awaitModels(ctx, cfg, w); err != nil {
		return err
	}
	c.note("\nWhether it does what it is for (again at any time: viiwork accept):")
	return c.accept(ctx, cfg, false)
}

func (s started) howToStart(path string) string {
	switch s.draft.Machine.Manager {
	case setup.Systemd:
		if s.draft.Machine.User {
			return "'systemctl --user enable --now viiwork'"
		}
		return "'systemctl enable --now viiwork'"
	case setup.Compose:
		return "'docker compose -f " + s.draft.Machine.Layout().Service + " up -d'"
	}
	return s.draft.Machine.Start(path)
}

// waits bounds how long a node is watched: where nobody sits at the terminal, nothing may hang.
type waits struct {
	up   time.Duration // until it answers; 0 = for ever, since somebody starts it by hand
	load time.Duration // from then on, until its models are loaded
}

// patience is what the configuration gives its engines, one after the other as a node loads them. An engine that is
// started again and again is seen by the checks that follow.
func patience(cfg *config.Config) waits {
	w := waits{up: 2 * time.Minute, load: time.Minute}
	for _, m := range cfg.Models {
		w.load += m.StartupTimeout * time.Duration(max(len(m.GPUs)/max(m.GPUsPerBackend, 1), 1))
	}
	return w
}

// awaitModels watches the node come up and its models load, until each is ready or has failed for good, or the time is over.
func (c *cli) awaitModels(ctx context.Context, cfg *config.Config, w waits) error {
	n, b := c.nodeOf(cfg), newLoadBar(c)
	defer b.stop()
	begun, up := time.Now(), time.Time{}
	for {
		var own status.Node
		err := n.get(ctx, "/v1/status", &own)
		var code coded
		switch {
		case ctx.Err() != nil:
			return errors.New("left while the node starts: it goes on; 'viiwork status' shows how it is, 'viiwork accept' proves it")
		case err == nil:
			b.tell(own)
			if up.IsZero() {
				up = time.Now()
			}
			if settled(own) || time.Since(up) > w.load {
				return nil
			}
		case !errors.As(err, &code) || code.code != exitNotRunning:
			return err
		case w.up > 0 && time.Since(begun) > w.up:
			return fmt.Errorf("the files are written and the service is started, and no node answers after %s: 'viiwork doctor' says what keeps it, and so does the service's log", w.up)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// settled reports whether no backend is on its way any more.
func settled(own status.Node) bool {
	for _, m := range own.Models {
		for _, b := range m.Backends {
			switch b.State {
			case "ready", "busy", "failed":
			default:
				return false
			}
		}
	}
	return true
}
