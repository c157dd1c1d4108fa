package swap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"viiwork/update/install"
)

// judge waits until the new container is as good as the old one was, and stays so.
func (h *helper) judge(ctx context.Context) error {
	patience := time.Duration(h.plan.Patience) * time.Second
	proving, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, stage := range []func(context.Context) error{h.awaitReady, h.prove} {
		if err := stage(proving); err != nil {
			if errors.Is(proving.Err(), context.DeadlineExceeded) {
				err = fmt.Errorf("after %v %w", patience, err)
			}
			return err
		}
	}
	return h.watch(ctx)
}

// awaitReady waits until the new version answers and each model has as many backends as before.
func (h *helper) awaitReady(ctx context.Context) error {
	answered, said := false, ""
	begun := h.plan.Ended
	if begun.IsZero() {
		begun = time.Now()
	}
	for {
		seen, err := h.look(ctx)
		short := h.plan.Before.Lacks(seen.Ready)
		if err != nil {
			short = err.Error()
		}
		if err == nil && !answered {
			answered = true
			if err := h.note(func(p *Plan) { p.Swap = max(0, time.Since(begun).Seconds()) }); err != nil {
				return err
			}
		}
		var final ended
		if errors.Is(err, errDecided) || errors.As(err, &final) {
			return err
		}
		if err != nil && ctx.Err() != nil && said != "" {
			return errors.New(said) // a look that was cut off says nothing
		}
		if short == "" {
			return nil
		}
		if short != said {
			said = short
			if err := h.stage(install.Started, short); err != nil {
				return err
			}
		}
		if !pause(ctx, lookEvery) {
			return errors.New(short)
		}
	}
}

// ended is a fault that waiting does not mend.
type ended struct{ error }

// crashes are how often Docker may have started the new container again before it is given up.
const crashes = 3

// look asks the node, if it is the new one that answers.
func (h *helper) look(ctx context.Context) (install.Sight, error) {
	if p, err := h.folder.Plan(); err == nil && (p == nil || p.Failed != "") {
		return install.Sight{}, errDecided
	}
	asking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	seen, err := h.node.Look(asking)
	if err == nil && seen.Version == h.plan.Version {
		return seen, nil
	}
	is, odd := h.next(asking)
	switch {
	case odd == nil && is.Starts >= crashes, odd == nil && !is.Running && h.plan.New.Restart == "":
		return install.Sight{}, ended{fmt.Errorf("it ends as soon as it is started, the last time with status %d", is.Exit)}
	case err != nil:
		return install.Sight{}, fmt.Errorf("the node does not answer: %w", err)
	}
	return install.Sight{}, fmt.Errorf("what answers is %s, not %s", install.Clip(seen.Version), h.plan.Version)
}

// prove has each model answer that answered before. One that is busy is asked again.
func (h *helper) prove(ctx context.Context) error {
	for _, model := range h.plan.Before.Answered {
		if err := h.stage(install.Proving, model); err != nil {
			return err
		}
		for try := 1; ; try++ {
			asking, cancel := context.WithTimeout(ctx, answerWithin)
			err := h.node.Complete(asking, model)
			cancel()
			if err == nil {
				break
			}
			if try == actTries || !pause(ctx, actPause) {
				return fmt.Errorf("%s answered before and does not now: %w", model, err)
			}
		}
	}
	return nil
}

// watch has it stay up, without a start of its own, and be as ready at the end as it was.
func (h *helper) watch(ctx context.Context) error {
	if err := h.stage(install.Watching, ""); err != nil {
		return err
	}
	var first BoxState
	if err := h.act(ctx, func(ctx context.Context) (err error) { first, err = h.next(ctx); return err }); err != nil {
		return err
	}
	for end, silent := time.Now().Add(time.Duration(h.plan.Watch)*time.Second), 0; ; {
		seen, err := h.look(ctx)
		is, odd := h.next(ctx)
		silent++
		switch {
		case errors.Is(err, errDecided), ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case odd == nil && (!is.Running || !is.Started.Equal(first.Started)):
			return fmt.Errorf("it ended by itself, with status %d", is.Exit)
		case err != nil && silent >= silences:
			return err
		case err == nil:
			silent = 0
		}
		short := h.plan.Before.Lacks(seen.Ready)
		if err == nil && !time.Now().Before(end) {
			if short == "" {
				return nil
			}
			if time.Now().After(end.Add(time.Duration(h.plan.Watch) * time.Second)) {
				return errors.New(short)
			}
		}
		if !pause(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// stage writes down how far it is.
func (h *helper) stage(s install.Stage, detail string) error {
	h.Log.Info("on trial", "version", h.plan.Version, "stage", s, "detail", install.Clip(detail))
	err := h.note(func(p *Plan) {
		if p.Failed == "" {
			p.Stage, p.Detail = s, install.Clip(detail)
		}
	})
	if err == nil && h.plan.Failed != "" {
		return errDecided
	}
	return err
}
