package swap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"viiwork/update"
	"viiwork/update/install"
)

// finish lets go of the old container once the new one is good.
func (h *helper) finish(ctx context.Context) error {
	h.Log.Info("it is good", "version", h.plan.Version, "drain_s", h.plan.Drain, "swap_s", h.plan.Swap)
	fault := ""
	for _, step := range []func(context.Context) error{
		h.start, // a Docker that was killed since may have left it
		func(ctx context.Context) error { return h.Boxes.RemoveBox(ctx, h.plan.Old) },
		h.moveTag, h.forget,
	} {
		if err := h.act(ctx, step); err != nil {
			if ctx.Err() != nil || errors.Is(err, errAway) {
				return errors.Join(ctx.Err(), err)
			}
			fault = err.Error()
		}
	}
	return h.folder.end(h.plan, install.Clip(fault))
}

// moveTag lets the name from which the old container was made stand for the new image, so that whoever makes one from it
// makes none of the old. The old image keeps a name: without one it would be litter to Docker.
func (h *helper) moveTag(ctx context.Context) error {
	if update.CheckVersion(h.plan.From) == nil {
		if err := h.Images.Tag(ctx, h.plan.OldImage, imageName(h.plan.From)); err != nil {
			return err
		}
	}
	if h.plan.Tag == "" {
		return nil
	}
	return h.Images.Tag(ctx, h.plan.Image, h.plan.Tag)
}

// forget removes the image that one could have gone back to until now.
func (h *helper) forget(ctx context.Context) error {
	s, err := h.folder.State()
	if err != nil || s.Previous == nil || s.Previous.Image == h.plan.OldImage || s.Previous.Image == h.plan.Image {
		return err
	}
	return h.Images.ForgetImage(ctx, imageName(s.Previous.Version))
}

// back removes the new container and has the old one run again. It does not give up as long as that helps.
func (h *helper) back(ctx context.Context) error {
	h.Log.Warn("taking it back", "version", h.plan.Version, "why", h.plan.Failed)
	if _, err := h.Boxes.LookAt(ctx, h.plan.Old); errors.Is(err, fs.ErrNotExist) {
		return h.stay(ctx)
	}
	fault := ""
	for _, step := range []func(context.Context) error{h.removeNew, h.nameOld, h.startOld} {
		if err := h.act(ctx, step); err != nil {
			if ctx.Err() != nil || errors.Is(err, errAway) {
				return errors.Join(ctx.Err(), err)
			}
			h.Log.Error("the way back is not free", "error", err)
			fault = err.Error()
		}
	}
	if fault == "" {
		fault = h.awaitOld(ctx)
	}
	if s, err := h.folder.State(); err == nil && (s.Previous == nil || s.Previous.Image != h.plan.Image) {
		_ = h.Images.ForgetImage(ctx, imageName(h.plan.Version))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.folder.end(h.plan, install.Clip(fault))
}

// stay is for an old container that somebody has removed: a new one that may be bad is better than none.
func (h *helper) stay(ctx context.Context) error {
	fault := fmt.Sprintf("the old container is gone, so %s stays", h.plan.Version)
	for _, step := range []func(context.Context) error{h.make, func(ctx context.Context) error {
		next, err := h.next(ctx)
		if err == nil {
			err = h.Boxes.RenameBox(ctx, next.ID, h.plan.Name)
		}
		return err
	}, h.start} {
		if err := h.act(ctx, step); err != nil {
			if ctx.Err() != nil || errors.Is(err, errAway) {
				return errors.Join(ctx.Err(), err)
			}
			fault = fmt.Sprintf("the old container is gone, and the new one does not start: %v", err)
		}
	}
	return h.folder.end(h.plan, install.Clip(fault))
}

// removeNew ends the new one as a node ends: it may have requests.
func (h *helper) removeNew(ctx context.Context) error {
	next, err := h.next(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && next.Running {
		err = h.Power.StopBox(ctx, next.ID, h.plan.New.Grace)
	}
	if err != nil {
		return err
	}
	return h.Boxes.RemoveBox(ctx, next.ID)
}

func (h *helper) nameOld(ctx context.Context) error {
	return h.Boxes.RenameBox(ctx, h.plan.Old, h.plan.Name)
}

func (h *helper) startOld(ctx context.Context) error {
	is, err := h.Boxes.LookAt(ctx, h.plan.Old)
	if err != nil || is.Running {
		return err
	}
	return h.Power.StartBox(ctx, h.plan.Old)
}

// awaitOld waits for the version that was before; what it says is what is still wrong when the patience is over.
func (h *helper) awaitOld(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.plan.Patience)*time.Second)
	defer cancel()
	fault := ""
	for {
		asking, done := context.WithTimeout(ctx, lookWithin)
		seen, err := h.node.Look(asking)
		done()
		if err != nil && ctx.Err() != nil && fault != "" {
			return fault // a look that was cut off says nothing
		}
		fault = h.plan.Before.Lacks(seen.Ready)
		switch {
		case err != nil:
			fault = fmt.Sprintf("the old version does not answer since it was started again: %v", err)
		case seen.Version != h.plan.From:
			fault = "what runs is " + install.Clip(seen.Version)
		}
		if fault == "" || !pause(ctx, lookEvery) {
			return fault
		}
	}
}

// leave removes the helper itself, which is the last thing it does. Where that comes too late, the next plan does it.
func (h *helper) leave(ctx context.Context) {
	is, err := h.Boxes.LookAt(ctx, h.plan.Name+helperEnd)
	if err != nil || is.Labels[labelPlan] != h.plan.ID || is.Labels[labelRole] != aideRole {
		return
	}
	if err := h.Boxes.RemoveBox(ctx, is.ID); err != nil {
		h.Log.Debug("the helper's own container stays", "error", err)
	}
}
