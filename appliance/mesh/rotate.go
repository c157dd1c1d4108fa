package mesh

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrNotRotated is returned where there is no secret to replace or another way is under way: trying again does not help.
var ErrNotRotated = errors.New("the secret is not replaced")

// ErrNoSecret is the ErrNotRotated of a mesh that is open.
var ErrNoSecret = fmt.Errorf("%w: this mesh is open, or on its way to a secret: bring mesh.secret_enforce to full on every node first (docs/mesh.md, Changing the secret)", ErrNotRotated)

// Progress is one step at one member, for people.
type Progress struct {
	Member string // name
	Step   string // ask, accept, use, done or drop; resume: what Member began is finished
	Fault  string // why it does not go along; "" = it does
}

// Rotated is how a replacement ended.
type Rotated struct {
	Generation uint64
	Members    []string // names of those that have the new secret, this node's first
	Away       []string // were lost to gossip and need the new join code
	Left       []string // were switched off in peace and need it too, should they come back
}

// Rotate replaces the secret at all living members, or finishes a replacement that was begun and not finished. If a member does
// not accept the new secret, all keep the old one and the error names the member. Once the first uses the new one there
// is no way back, and an error says that it is to be run again. Say is called for each step at each member, from one
// goroutine at a time. The error is ErrNotRotated where it cannot be done at all.
func (r *Rotation) Rotate(ctx context.Context, say func(Progress)) (Rotated, error) {
	if !r.cfg.Keys.Load().Secured() {
		return Rotated{}, ErrNoSecret
	}
	if r.cfg.Secret.hand {
		return Rotated{}, fmt.Errorf("%w: this node's configuration gives two secrets, so it is being replaced by hand: finish that, and unset the variable of mesh.secret_prev_env", ErrNotRotated)
	}
	if !r.leading.TryLock() {
		return Rotated{}, errors.New("a replacement is led by this node already: wait for its end")
	}
	defer r.leading.Unlock()
	l := &lead{r: r, say: say}
	if err := l.begin(ctx); err != nil {
		return Rotated{}, fmt.Errorf("nothing is replaced: %w", err)
	}
	if err := l.offer(ctx); err != nil {
		l.takeBack(context.WithoutCancel(ctx))
		return Rotated{}, err
	}
	// From here on it is finished, whether anybody waits for it or not.
	return l.finish(context.WithoutCancel(ctx))
}

// lead is one replacement as the node that leads it sees it. Its own goroutine alone writes it.
type lead struct {
	r   *Rotation
	msg message // what is told, its step left out
	old []byte  // nil = this node never had it
	new []byte
	has map[string]string // members that accept the new secret, name by id
	met []Member          // those that answered when they were asked how they stand
	// resumed says that another run began what this one finishes.
	resumed bool

	mu  sync.Mutex // guards the calls of say
	say func(Progress)
}

func (l *lead) progress(m Member, step stage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Progress{Member: m.Name, Step: string(step)}
	if err != nil {
		p.Fault = err.Error()
	}
	if l.say != nil {
		l.say(p)
	}
}

// begin finds the secret to bring to everyone and accepts it here. Between the two this node may have accepted one from
// another: it has given its word then, and looks anew.
func (l *lead) begin(ctx context.Context) error {
	r := l.r
	for {
		r.mu.Lock()
		own := r.state
		r.mu.Unlock()
		if err := l.choose(ctx, own); err != nil {
			return err
		}
		self := Member{ID: r.cfg.ID, Name: r.cfg.Name}
		r.mu.Lock()
		same := own.Generation == r.state.Generation && own.Stage == r.state.Stage && bytes.Equal(own.Secret, r.state.Secret)
		why := ""
		if same {
			why = r.accept(self.ID, l.to(self, message{Step: stageAccept}))
		}
		a := r.answer(why)
		r.mu.Unlock()
		if !same {
			continue
		}
		if l.resumed {
			l.progress(Member{Name: l.msg.ByName}, stepResume, nil)
		}
		l.progress(self, stageAccept, a.fault())
		return a.fault()
	}
}

// choose asks everyone how they stand, and takes a new secret or one that was begun.
func (l *lead) choose(ctx context.Context, own secretState) error {
	r := l.r
	members := r.alive()
	answers, err := l.all(ctx, members, message{Step: stepAsk})
	if err != nil {
		return err
	}
	l.met = slices.DeleteFunc(members, func(m Member) bool { _, answered := answers[m.ID]; return !answered })
	if own.Stage == stageDone && own.Prev != nil {
		return fmt.Errorf("the last replacement is not over: try again in %s", r.untilForgotten(own, time.Now()).Round(time.Second))
	}
	highest := own.Generation
	var begun *answer
	var from string
	for id, a := range answers {
		if a.Generation > own.Generation+maxJump {
			return fmt.Errorf("%s counts %d replacements, which cannot be: look at that machine", l.nameOf(id), a.Generation)
		}
		highest = max(highest, a.Generation)
		if a.Stage != stageDone && (begun == nil || a.counts(*begun)) {
			begun, from = &a, id
		}
	}
	mine := answer{Generation: own.Generation, Stage: own.Stage, By: own.By, ByName: own.ByName, Secret: nameOf(own.Secret)}
	switch {
	case own.pending() && (begun == nil || !begun.counts(mine)):
		l.old, l.new = own.Prev, own.Secret
		l.msg = message{Generation: own.Generation, Secret: mine.Secret, By: own.By, ByName: own.ByName}
	case begun != nil:
		l.msg = message{Generation: begun.Generation, Secret: begun.Secret, By: begun.By, ByName: begun.ByName}
		l.old, l.new = own.ruling(), unseal(own.ruling(), begun.Sealed, envelope{begun.Generation, stepAsk, from, r.cfg.ID})
		if begun.Secret == nameOf(own.Secret) {
			l.old, l.new = own.Prev, own.Secret
		} else if l.new == nil {
			return fmt.Errorf("what was begun by %s cannot be read here: run 'viiwork join-code --rotate' on %s", begun.ByName, l.nameOf(from))
		}
	default:
		l.old, l.new = own.Secret, make([]byte, secretBytes)
		rand.Read(l.new) // never fails
		l.msg = message{Generation: highest + 1, Secret: nameOf(l.new), By: r.cfg.ID, ByName: r.cfg.Name}
	}
	l.msg.Lead = newLead()
	l.resumed = own.pending() || begun != nil
	return nil
}

// newLead names one run, so that another run's word is not taken for its.
func newLead() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// counts reports whether the replacement a speaks of is the one to finish rather than b: one that is used somewhere
// above all.
func (a answer) counts(b answer) bool {
	if (a.Stage == stageUse) != (b.Stage == stageUse) {
		return a.Stage == stageUse
	}
	return message{Generation: a.Generation, By: a.By}.beats(secretState{Generation: b.Generation, By: b.By})
}

func (l *lead) nameOf(id string) string {
	for _, m := range l.r.alive() {
		if m.ID == id {
			return m.Name
		}
	}
	return "a member"
}

// offer brings the new secret to everyone until nobody is alive that does not accept it. Who has just answered is told
// even though gossip has lost it since: it may have stood still for a moment, and would be shut out.
func (l *lead) offer(ctx context.Context) error {
	l.has = map[string]string{}
	for met := l.met; ; met = nil {
		missing := l.r.alive()
		for _, m := range met {
			if !l.lives(m) {
				missing = append(missing, m)
			}
		}
		missing = slices.DeleteFunc(missing, func(m Member) bool { _, has := l.has[m.ID]; return has })
		if len(missing) == 0 {
			return ctx.Err()
		}
		answers, err := l.all(ctx, missing, message{Step: stageAccept})
		for _, m := range missing {
			if _, accepted := answers[m.ID]; accepted {
				l.has[m.ID] = m.Name
			}
		}
		if err != nil {
			return fmt.Errorf("nothing is replaced, all keep the old secret: %w", err)
		}
	}
}

// here takes a step at this node itself. It fails when another replacement has been preferred meanwhile.
func (l *lead) here(step stage) error {
	own := Member{ID: l.r.cfg.ID, Name: l.r.cfg.Name}
	a := l.r.take(own.ID, l.to(own, message{Step: step}))
	err := a.fault()
	l.progress(own, step, err)
	if err != nil {
		return fmt.Errorf("%s: %w", own.Name, err)
	}
	return nil
}

// to is the message as it goes to m.
func (l *lead) to(m Member, step message) message {
	msg := l.msg
	msg.Step = step.Step
	if msg.Step == stageAccept && l.old != nil {
		msg.Sealed = seal(l.old, l.new, envelope{msg.Generation, stageAccept, l.r.cfg.ID, m.ID})
	}
	return msg
}

// finish makes everyone use the new secret, and then forget the old one.
func (l *lead) finish(ctx context.Context) (Rotated, error) {
	for _, step := range []stage{stageUse, stageDone} {
		if err := l.here(step); err != nil {
			return Rotated{}, fmt.Errorf("the new secret is on its way and not everywhere: %w: run 'viiwork join-code --rotate' again", err)
		}
		var told []Member
		for _, m := range l.r.alive() {
			if _, has := l.has[m.ID]; has {
				told = append(told, m)
			}
		}
		// Who does not hear it has both secrets and asks the others, but the old one must not be forgotten before it did.
		if _, err := l.all(ctx, told, message{Step: step}); err != nil && step == stageUse {
			return Rotated{}, fmt.Errorf("the new secret is in use and one does not use it yet: %w: run 'viiwork join-code --rotate' again on any node", err)
		}
	}
	out := Rotated{Generation: l.msg.Generation, Members: []string{l.r.cfg.Name}}
	var names []string
	for _, name := range l.has {
		names = append(names, name)
	}
	slices.Sort(names)
	out.Members = append(out.Members, names...)
	alive, failed, left := l.r.cfg.Members()
	out.Away, out.Left = l.without(append(alive, failed...)), l.without(left) // one may have come in the last moment
	return out, nil
}

// without names those of members that never got the new secret.
func (l *lead) without(members []Member) (names []string) {
	for _, m := range members {
		if _, has := l.has[m.ID]; !has && m.ID != l.r.cfg.ID {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// takeBack makes those who accepted forget the new secret, as far as they can be reached and none uses it. What is left of
// it harms nothing and is finished by the next run.
func (l *lead) takeBack(ctx context.Context) {
	for _, m := range l.r.alive() {
		if _, has := l.has[m.ID]; has {
			a, err := l.r.tell(ctx, m, l.to(m, message{Step: stepDrop}), nil)
			if err == nil && a.OK { // else it has followed another run meanwhile
				l.progress(m, stepDrop, nil)
			}
		}
	}
	l.r.take(l.r.cfg.ID, l.to(Member{ID: l.r.cfg.ID}, message{Step: stepDrop}))
}
