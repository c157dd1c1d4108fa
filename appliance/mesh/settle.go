package mesh

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"viiwork/appliance/status"
)

const (
	// settleEvery is how often it is looked whether something is left to do, pullEvery how often others are asked for it.
	settleEvery = time.Second
	pullEvery   = 5 * time.Second
)

// Run sees to it that a replacement that was begun ends here, until ctx ends. It may be called once.
func (r *Rotation) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return errors.New("replacing the secret: it has run already")
	}
	r.tidy()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	hand := &byHand{r: r, seen: map[string]sighting{}}
	var pulled time.Time
	for {
		r.mu.Lock()
		s := r.state
		r.mu.Unlock()
		switch now := time.Now(); {
		case s.Prev == nil:
		case s.Stage == stageDone:
			if r.untilForgotten(s, now) <= 0 {
				r.forget()
			}
		case r.cfg.Secret.hand && s.Stage == stageAccept:
			hand.look(ctx, s)
		case r.cfg.Secret.hand:
		case now.Sub(pulled) >= pullEvery:
			r.pull(ctx, s)
			pulled = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.poke:
		case <-tick.C:
		}
	}
}

// tidy sets a file aside that does not rule, and brings one up to date that does.
func (r *Rotation) tidy() {
	s := r.cfg.Secret
	if s.path == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	switch {
	case s.aside != "":
		r.cfg.Log.Warn("the kept mesh secret does not rule and is set aside: the configured one does", "file", s.path, "why", s.aside)
		err = os.Rename(s.path, s.path+".aside")
	case r.state.Generation > 0:
		err = r.state.store(s.path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.cfg.Log.Error("the mesh secret's file cannot be written", "error", err)
	}
}

// untilForgotten is how long the old secret of a finished replacement is still understood. A clock that was set does
// not make it longer than it ever was.
func (r *Rotation) untilForgotten(s secretState, now time.Time) time.Duration {
	return min(max(r.cfg.Forget-now.Sub(time.UnixMilli(s.Since)), 0), r.cfg.Forget)
}

// forget ends the last stage.
func (r *Rotation) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.state; s.Stage == stageDone && s.Prev != nil {
		s.Prev = nil
		if r.become(s) != whyDisk {
			return
		}
		// It is replaced since somebody may have it who should not: a full disk must not keep it in force. The next start
		// forgets it again.
		was := r.state
		r.state = s
		if err := r.apply(); err != nil {
			r.state = was
		}
	}
}

// pull asks the others whether they are further. So who was down when it was told to go on goes on when it comes back, and
// one that leads need not be there.
func (r *Rotation) pull(ctx context.Context, s secretState) {
	var asked sync.WaitGroup
	for _, m := range r.alive() {
		asked.Go(func() {
			a, err := r.tell(ctx, m, message{Step: stepAsk}, nil)
			if second := r.cfg.Keys.Load().second(); otherSecret(err) && second != nil {
				a, err = r.tell(ctx, m, message{Step: stepAsk}, second)
			}
			if err == nil && a.Generation == s.Generation && a.Secret == nameOf(s.Secret) && a.Stage != stageAccept {
				r.follow(a)
			}
		})
	}
	asked.Wait()
}

// follow goes as far as another member is. Any further stage proves that everyone who was alive accepts the new secret.
func (r *Rotation) follow(a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := message{Generation: a.Generation, Secret: a.Secret}
	for _, step := range []stage{stageUse, stageDone} {
		if m.Step = step; step == stageUse || a.Stage == stageDone {
			r.advance(m)
		}
	}
}

// Refused says that a member of the mesh understood nothing that this node, alone, gossiped. It may have been away while the
// others went on from one of its two secrets to the other: it tries the other one.
func (r *Rotation) Refused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.state.pending() || len(r.alive()) > 0 {
		return
	}
	r.turned = !r.turned
	if err := r.apply(); err != nil {
		r.complain("gossip does not take the mesh's keys", err)
	}
}

func (r *Rotation) alive() []Member {
	alive, _, _ := r.cfg.Members()
	others := alive[:0:0]
	for _, m := range alive {
		if m.ID != r.cfg.ID {
			others = append(others, m)
		}
	}
	return others
}

// Warnings names what the owner should know of the secret.
func (r *Rotation) Warnings() (all []status.Warning) {
	if s := r.view.Load(); s.pending() && !r.cfg.Secret.hand {
		all = append(all, status.Warning{ID: "secret_rotation",
			Text: "a new mesh secret was begun by " + s.ByName + " and is not everywhere yet; the mesh works with both",
			Fix:  "if it stays so, run 'viiwork join-code --rotate' again on any node: it finishes what was begun"})
	}
	if s := r.cfg.Secret; s.stray {
		all = append(all, status.Warning{ID: "secret_file",
			Text: "the mesh secret kept in " + s.path + " cannot be used (" + s.aside + "); the configured one is used and the file set aside",
			Fix:  "if the mesh has another secret now, put it into this node's configuration: 'viiwork join-code --secret' on another node prints it"})
	}
	return all
}
