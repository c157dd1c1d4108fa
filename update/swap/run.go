package swap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"viiwork/update/install"
)

// Config is what a helper needs. A zero field has the default that is named.
type Config struct {
	StateDir string
	Boxes    Boxes
	Power    Power
	Images   Images
	Node     func(socket, name string) install.Node // nil = the one that answers at the socket
	Log      *slog.Logger                           // nil = none
}

// Times of a helper.
const (
	lookEvery    = 200 * time.Millisecond
	lookWithin   = 10 * time.Second
	answerWithin = 3 * time.Minute
	actPause     = time.Second
	actTries     = 3                // of an act that fails although Docker answers
	silences     = 3                // looks in a row that a node which was up may leave unanswered
	awayFor      = 30 * time.Second // that Docker may not answer
	sureAfter    = 3 * time.Second
)

// helper carries one plan out.
type helper struct {
	Config
	folder Folder
	plan   *Plan
	node   install.Node
	id     string // of the new container, once it is known
}

// Run carries out the plan of a state directory: it ends when that is decided and done, whatever was found, and at once
// where there is no plan. An error means that it has to be run again, and goes on from there; so does the end of ctx.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Node == nil {
		cfg.Node = func(socket, name string) install.Node { return install.LocalNode{Socket: socket, Name: name} }
	}
	h := &helper{Config: cfg, folder: At(cfg.StateDir)}
	lock, err := h.folder.lock("run.lock", unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return err
	}
	defer letGo(lock)
	if h.plan, err = h.folder.change(count); err != nil {
		return err
	}
	if h.plan == nil {
		return nil
	}
	h.node = cfg.Node(h.plan.Socket, h.plan.Node)
	if err := h.decide(ctx); err != nil {
		return err
	}
	if h.plan.Good {
		err = h.finish(ctx)
	} else {
		err = h.back(ctx)
	}
	if err != nil {
		return err
	}
	h.leave(ctx)
	return nil
}

// count has a helper that ends again and again, and perhaps Docker with it, go back rather than on.
func count(p *Plan) {
	if p.Good || p.Failed != "" {
		return
	}
	if p.Runs--; p.Runs < 0 {
		p.Runs, p.Failed, p.Stage = 0, fmt.Sprintf("it was not done after %d starts of its helper", helperRuns), install.Returning
	}
}

// decide goes forward until the plan says that the new container is good, or why not.
func (h *helper) decide(ctx context.Context) error {
	if h.plan.Good || h.plan.Failed != "" {
		return nil
	}
	h.Log.Info("replacing the node", "container", h.plan.Name, "version", h.plan.Version, "previous", h.plan.From)
	why := h.forward(ctx)
	if err := ctx.Err(); err != nil || errors.Is(why, errAway) {
		return errors.Join(err, why)
	}
	return h.note(func(p *Plan) {
		switch {
		case p.Failed != "" || why == nil && p.Good:
		case why == nil:
			p.Good = true
		default:
			p.Failed, p.Stage, p.Detail = install.Clip(why.Error()), install.Returning, ""
		}
	})
}

// errDecided ends the way forward when a person has decided.
var errDecided = errors.New("it was decided elsewhere")

// note changes the plan on disk, and takes from there what others have written.
func (h *helper) note(act func(*Plan)) error {
	p, err := h.folder.change(act)
	if err == nil && p == nil {
		err = errors.New("the plan is gone")
	}
	if err != nil {
		return err
	}
	h.plan = p
	return nil
}

// forward is the steps, each of which sees whether it is done. No decision is taken back by them.
func (h *helper) forward(ctx context.Context) error {
	for _, step := range []func(context.Context) error{h.checkImage, h.make, h.stopOld, h.names, h.start} {
		if err := h.act(ctx, step); err != nil {
			return err
		}
		if p, err := h.folder.Plan(); err == nil && p != nil && p.Failed != "" {
			return errDecided
		}
	}
	if err := h.judge(ctx); err != nil {
		return h.sure(ctx, err)
	}
	return nil
}

// sure lets a moment pass before a verdict against the new container: a Docker that is ending ends all containers, this one of
// the helper a little later than others. What is seen while it is away says nothing of the new version.
func (h *helper) sure(ctx context.Context, verdict error) error {
	if errors.Is(verdict, errAway) || errors.Is(verdict, errDecided) || !pause(ctx, sureAfter) {
		return errors.Join(verdict, ctx.Err())
	}
	if _, err := h.Boxes.LookAt(ctx, h.plan.Old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errAway, err)
	}
	return verdict
}

// errAway ends a run that Docker does not answer. It says nothing of the new version. A Docker that came back may have made
// its socket anew, which is seen only by a container that is started anew.
var errAway = errors.New("no answer from Docker")

// act tries a step again while Docker itself is away, and some times while it is there.
func (h *helper) act(ctx context.Context, step func(context.Context) error) error {
	for failed, heard := 0, time.Now(); ; {
		err := step(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if _, away := h.Boxes.LookAt(ctx, h.plan.Old); away == nil || errors.Is(away, fs.ErrNotExist) {
			failed, heard = failed+1, time.Now()
		}
		switch {
		case failed == actTries:
			return err
		case time.Since(heard) > awayFor:
			return errors.Join(errAway, err)
		}
		h.Log.Warn("a step failed and is tried again", "error", err)
		if !pause(ctx, actPause) {
			return ctx.Err()
		}
	}
}

// checkImage holds what Docker has under the id against what was proved when the plan was made.
func (h *helper) checkImage(ctx context.Context) error {
	id, content, err := h.Images.ImageContent(ctx, h.plan.Image)
	if err != nil {
		return err
	}
	if id != h.plan.Image || !slices.Equal(content, h.plan.Content) {
		return fmt.Errorf("image %s of this Docker is not the one that was proved: do not use it", h.plan.Image)
	}
	return nil
}

// next finds the new container by its two names; fs.ErrNotExist if there is none of this plan.
func (h *helper) next(ctx context.Context) (BoxState, error) {
	if h.id != "" {
		return h.Boxes.LookAt(ctx, h.id)
	}
	for _, name := range []string{h.plan.Name + nextEnd, h.plan.Name} {
		is, err := h.Boxes.LookAt(ctx, name)
		if err == nil && is.Labels[labelPlan] == h.plan.ID && is.Labels[labelRole] == nodeRole {
			h.id = is.ID
			return is, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return BoxState{}, err
		}
	}
	return BoxState{}, fmt.Errorf("the new container: %w", fs.ErrNotExist)
}

func (h *helper) make(ctx context.Context) error {
	if _, err := h.next(ctx); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b := h.plan.New
	b.Name += nextEnd
	if err := h.clear(ctx, b.Name); err != nil {
		return err
	}
	id, err := h.Boxes.MakeBox(ctx, b)
	if err != nil {
		return err
	}
	h.id = id
	return nil
}

// clear takes away what an earlier plan has left under a name. What is not ours, or runs, stays, and is an error.
func (h *helper) clear(ctx context.Context, name string) error {
	is, err := h.Boxes.LookAt(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case is.ID == h.plan.Old, is.Running, is.Labels[labelPlan] == "":
		return fmt.Errorf("the name %s is taken by container %.12s: rename or remove it", name, is.ID)
	}
	return h.Boxes.RemoveBox(ctx, is.ID)
}

func (h *helper) stopOld(ctx context.Context) error {
	is, err := h.Boxes.LookAt(ctx, h.plan.Old)
	if err != nil || !is.Running {
		return err
	}
	begun := time.Now()
	h.Log.Info("stopping the old one", "for_at_most", h.plan.New.Grace)
	if err := h.Power.StopBox(ctx, h.plan.Old, h.plan.New.Grace); err != nil {
		return err
	}
	return h.note(func(p *Plan) { p.Drain, p.Ended = time.Since(begun).Seconds(), time.Now().UTC() })
}

// names lets the two change theirs, the old one first.
func (h *helper) names(ctx context.Context) error {
	is, err := h.Boxes.LookAt(ctx, h.plan.Old)
	if err != nil {
		return err
	}
	if is.Name == h.plan.Name {
		if err := h.clear(ctx, h.plan.Name+prevEnd); err != nil {
			return err
		}
		if err := h.Boxes.RenameBox(ctx, is.ID, h.plan.Name+prevEnd); err != nil {
			return err
		}
	}
	next, err := h.next(ctx)
	if err != nil {
		return err
	}
	return h.Boxes.RenameBox(ctx, next.ID, h.plan.Name)
}

// start also starts one that has ended: a Docker that was killed does not bring all back that it should. One that ends
// again and again is seen by the judge.
func (h *helper) start(ctx context.Context) error {
	is, err := h.next(ctx)
	if err != nil || is.Running {
		return err
	}
	return h.Power.StartBox(ctx, is.ID)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
