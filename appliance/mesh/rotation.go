package mesh

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// forgetAfter is how long the old secret is understood once all members use the new one: longer than a request may be
	// on its way, since one signed up to 30 s ago by a clock 30 s off still counts.
	forgetAfter = 90 * time.Second
	// maxJump bounds by how much a member may raise the generation: it must not be used up.
	maxJump = 1_000_000
)

// GossipKeys changes the keys of the gossip, two at most. A serf.Cluster does it.
type GossipKeys interface {
	InstallKey(ctx context.Context, key []byte) error
	UseKey(ctx context.Context, key []byte) error
	RemoveKey(ctx context.Context, key []byte) error
}

// RotationConfig is what a Rotation is made of.
type RotationConfig struct {
	ID, Name string // of this node
	Secret   Secret // it starts with
	Enforce  string // as in KeyConfig
	Keys     *Keyring
	Gossip   GossipKeys // began with the keys of Secret; nil = there is none to tell
	Client   *Client
	Verifier *Verifier
	// Members are the others: those gossip holds for alive, those it lost without a goodbye, and those that said one.
	Members  func() (alive, failed, left []Member)
	Forget   time.Duration // how long the old secret is understood after the last member has the new; 0 = 90 s
	Patience time.Duration // with one attempt to reach a member; 0 = 10 s
	Log      *slog.Logger  // nil = silent
}

// Rotation is this node's part in replacing the mesh's secret: it answers the node that leads a replacement, may lead one
// itself (Rotate), and sees to it that one that was begun comes to its end here (Run).
//
// The stages: all members accept the new secret beside the old one; then all use it; then the old one is forgotten.
// Nobody uses the new one before all who are alive accept it, so that at each moment each understands each.
type Rotation struct {
	cfg     RotationConfig
	poke    chan struct{}
	ran     atomic.Bool
	leading sync.Mutex // one Rotate at a time

	view atomic.Pointer[secretState] // the state, for who must not wait for a disk

	mu     sync.Mutex // guards what follows; held while the file is written
	state  secretState
	turned bool     // the two secrets have changed places for now, see Refused
	gossip [][]byte // keys as gossip has them, the one in use first
	said   string   // the last fault logged of them
}

// NewRotation makes a Rotation. The keys must be those of the secret.
func NewRotation(cfg RotationConfig) *Rotation {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Forget <= 0 {
		cfg.Forget = forgetAfter
	}
	if cfg.Patience <= 0 {
		cfg.Patience = patience
	}
	r := &Rotation{cfg: cfg, poke: make(chan struct{}, 1), state: cfg.Secret.state, gossip: cfg.Keys.Load().Gossip()}
	r.view.Store(&cfg.Secret.state)
	return r
}

// Codes of why a member does not go along.
const (
	whyOther    = "other"    // another replacement is under way and counts
	whyOlder    = "older"    // the generation is not newer than its own
	whyJump     = "jump"     // the generation is newer by far too much
	whySettling = "settling" // the last replacement is not over: the old secret is not forgotten
	whyHand     = "by_hand"  // its configuration gives two secrets
	whySeal     = "seal"     // it cannot open the new secret: it has another old one
	whyUnknown  = "unknown"  // it does not have the secret it should use
	whyOrder    = "order"    // a stage before has not come
	whyDisk     = "disk"     // it cannot write its file
	whyGossip   = "gossip"   // its gossip does not take the key
	whyMessage  = "message"  // the message makes no sense
)

// take answers one message of a member, this node included.
func (r *Rotation) take(from string, m message) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := ""
	switch m.Step {
	case stepAsk:
		if r.cfg.Secret.hand {
			why = whyHand
		}
	case stageAccept:
		why = r.accept(from, m)
	case stageUse, stageDone:
		why = r.advance(m)
	case stepDrop:
		why = r.drop(m)
	default:
		why = whyMessage
	}
	a := r.answer(why)
	if m.Step == stepAsk && r.state.pending() && !r.cfg.Secret.hand {
		a.Sealed = seal(r.state.Prev, r.state.Secret, envelope{r.state.Generation, stepAsk, r.cfg.ID, from})
	}
	return a
}

// answer is how this node stands.
func (r *Rotation) answer(why string) answer {
	s := r.state
	a := answer{OK: why == "", Why: why, Generation: s.Generation, Stage: s.Stage, By: s.By, ByName: s.ByName, Secret: nameOf(s.Secret)}
	if why == whySettling {
		a.WaitMS = r.untilForgotten(s, time.Now()).Milliseconds()
	}
	a.View = viewOf(r.cfg.ID, r.alive())
	return a
}

// accept takes in a new secret beside the old one.
func (r *Rotation) accept(from string, m message) (why string) {
	s := r.state
	switch known := m.Secret == nameOf(s.Secret); {
	case r.cfg.Secret.hand:
		return whyHand
	case !isID(m.By) || !isText(m.ByName) || !isID(m.Lead) || m.Generation == 0:
		return whyMessage
	case m.Generation > s.Generation+maxJump || m.Generation > maxGeneration:
		return whyJump
	case known && m.Generation == s.Generation:
		if s.Lead != m.Lead {
			s.Lead = "" // two runs bring it: neither may take it back, since the other counts on it
		}
		return r.become(s)
	case known && s.Stage == stageDone && m.Generation > s.Generation: // it came with the new secret in its configuration
		s.Generation, s.By, s.ByName, s.From = m.Generation, m.By, m.ByName, s.Generation
		return r.become(s)
	case s.Stage == stageUse, s.Stage == stageAccept && !m.beats(s):
		return whyOther
	case s.Stage == stageDone && m.Generation <= s.Generation:
		return whyOlder
	case s.Stage == stageDone && s.Prev != nil:
		return whySettling
	}
	old := s.ruling()
	secret := unseal(old, m.Sealed, envelope{m.Generation, stageAccept, from, r.cfg.ID})
	if secret == nil || nameOf(secret) != m.Secret || bytes.Equal(secret, old) {
		return whySeal
	}
	next := secretState{Generation: m.Generation, Secret: secret, Prev: old, Stage: stageAccept, By: m.By, ByName: m.ByName,
		Lead: m.Lead, From: s.From, Configured: s.Configured, Replaced: s.replacing(old)}
	if s.Stage == stageDone {
		next.From = s.Generation
	}
	return r.become(next)
}

// beats reports whether the message's secret counts rather than the one that s has accepted and not used: every node
// decides between the same two in the same way, so only one of them can be accepted by all.
func (m message) beats(s secretState) bool {
	if m.Generation != s.Generation {
		return m.Generation > s.Generation
	}
	return m.By < s.By
}

// advance goes on to use, or to done.
func (r *Rotation) advance(m message) (why string) {
	s := r.state
	want := m.Step
	switch {
	case m.Generation != s.Generation || m.Secret != nameOf(s.Secret) || r.cfg.Secret.hand:
		return whyUnknown
	case s.Stage == stageDone || s.Stage == want:
		return ""
	case s.Stage == stageAccept && want == stageDone:
		return whyOrder
	}
	s.Stage = want
	return r.become(s)
}

// drop goes back to the old secret alone: not all could be given the new one, so nobody uses it.
func (r *Rotation) drop(m message) (why string) {
	s := r.state
	switch {
	case m.Generation != s.Generation || m.Secret != nameOf(s.Secret) || r.cfg.Secret.hand:
		return whyUnknown
	case s.Stage != stageAccept:
		return whyOrder
	case s.Lead == "" || s.Lead != m.Lead:
		return whyOther
	}
	return r.become(secretState{Generation: s.From, Secret: s.Prev, Stage: stageDone, Configured: s.Configured,
		Replaced: s.withoutReplaced(s.Prev)})
}

// become makes s this node's state: on disk, for requests and for gossip, or not at all.
func (r *Rotation) become(s secretState) (why string) {
	if s.Stage != r.state.Stage || s.Generation != r.state.Generation {
		s.Since = time.Now().UnixMilli()
	}
	if err := s.store(r.cfg.Secret.path); err != nil {
		r.complain("the mesh secret cannot be kept", err)
		return whyDisk
	}
	was, turned := r.state, r.turned
	r.state, r.turned = s, turned && s.Stage == was.Stage && s.Generation == was.Generation
	if err := r.apply(); err != nil {
		r.complain("gossip does not take the mesh's keys", err)
		r.state, r.turned = was, turned
		if err := errors.Join(r.apply(), was.store(r.cfg.Secret.path)); err != nil {
			r.cfg.Log.Error("the mesh secret is not as it was: restart this node", "error", err)
		}
		return whyGossip
	}
	r.said = ""
	r.view.Store(&s)
	if s.Stage != was.Stage || s.Generation != was.Generation {
		r.cfg.Log.Info("the mesh secret is replaced", "stage", s.Stage, "generation", s.Generation, "by", s.ByName)
	}
	select {
	case r.poke <- struct{}{}:
	default:
	}
	return ""
}

// complain logs a fault once while it stands: what failed is tried again and again.
func (r *Rotation) complain(what string, err error) {
	if text := what + err.Error(); text != r.said {
		r.said = text
		r.cfg.Log.Error(what, "error", err)
	}
}

// apply makes the state's keys rule.
func (r *Rotation) apply() error {
	s := r.state
	if r.turned && s.pending() {
		s.Stage = map[stage]stage{stageAccept: stageUse, stageUse: stageAccept}[s.Stage]
	}
	keys, err := s.keys(r.cfg.Enforce)
	if err != nil {
		return err
	}
	if err := r.regossip(keys.Gossip()); err != nil {
		return err
	}
	r.cfg.Keys.Store(keys)
	return nil
}

// regossip leads gossip from the keys it has to those it shall have, never with more than two.
func (r *Rotation) regossip(want [][]byte) error {
	if r.cfg.Gossip == nil || len(want) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Patience)
	defer cancel()
	has := func(keys [][]byte, key []byte) bool {
		return len(keys) > 0 && (bytes.Equal(keys[0], key) || len(keys) > 1 && bytes.Equal(keys[1], key))
	}
	var errs []error
	if len(r.gossip) > 1 && !has(want, r.gossip[1]) {
		errs = append(errs, r.cfg.Gossip.RemoveKey(ctx, r.gossip[1]))
	}
	for _, key := range want {
		errs = append(errs, r.cfg.Gossip.InstallKey(ctx, key))
	}
	errs = append(errs, r.cfg.Gossip.UseKey(ctx, want[0]))
	if len(r.gossip) > 0 && !has(want, r.gossip[0]) {
		errs = append(errs, r.cfg.Gossip.RemoveKey(ctx, r.gossip[0]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.gossip = want
	return nil
}
