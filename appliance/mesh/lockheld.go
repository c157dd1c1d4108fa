package mesh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	lockTries  = 6  // of two who want it at one time
	lockAtOnce = 32 // members that are told something
	lockRise   = 64 // by how much a member that is ahead may raise a holder's term at one time: a lie is worth no more
)

// Held is a lock that this node holds. One goroutine at a time may use it.
type Held struct {
	l     *Lock
	term  uint64
	token string
	note  note
	said  time.Time // when the last words were sent that a majority heard
}

// Take makes this node the holder. It returns the newest note that a majority knows of, which is of an earlier holder or of an
// earlier run of this node. The error is ErrLockHeld, ErrLockMinority, ErrLockOpen, or names what is wrong. Free ends the hold.
func (l *Lock) Take(ctx context.Context) (*Held, []byte, error) {
	if !l.cfg.Keys.Load().Secured() {
		return nil, nil, ErrLockOpen
	}
	if !l.leading.TryLock() {
		return nil, nil, &LockedError{Name: l.cfg.Name}
	}
	for try := 1; ; try++ {
		h, old, err := l.try(ctx)
		if err == nil {
			return h, old, nil
		}
		if !errors.Is(err, errBoth) || try == lockTries || !pause(ctx, rand.N(time.Duration(try)*500*time.Millisecond)) {
			l.leading.Unlock()
			return nil, nil, err
		}
	}
}

// errBoth is a try that met another one.
var errBoth = errors.New("another node wants to lead at the same moment: see what it does, and try again")

// try asks everyone how they stand, and for their voices if nobody holds it.
func (l *Lock) try(ctx context.Context) (*Held, []byte, error) {
	asked := l.all(ctx, lockMessage{Step: lockAsk})
	free := asked.majority(func(a lockAnswer) bool { return a.Owner == "" || a.Owner == l.cfg.ID })
	if err := asked.held(); err != nil && free != nil { // else what is said of a holder is a lie, or over elsewhere
		return nil, nil, err
	}
	if err := asked.majority(func(lockAnswer) bool { return true }); err != nil {
		return nil, nil, err
	}
	h := &Held{l: l, term: asked.term() + 1, token: newToken(), said: time.Now()}
	got := l.all(ctx, lockMessage{Step: lockTry, Term: h.term, Name: l.cfg.Name, Token: h.token})
	err := got.majority(func(a lockAnswer) bool { return a.OK })
	if err == nil {
		h.note = note{Term: h.term, Number: 1, Text: got.newest().Text}
		err = h.Note(ctx, h.note.Text) // what the last one left is this one's from now on
	}
	if err == nil {
		return h, h.note.Text, nil
	}
	l.all(context.WithoutCancel(ctx), lockMessage{Step: lockFree, Token: h.token})
	return nil, nil, cmp.Or(got.held(), got.other(), err)
}

// Token names this hold to those who are to obey it, see [Lock.Obeys].
func (h *Held) Token() string { return h.token }

// Fresh reports whether a majority heard of this hold so short a time ago that nobody else can hold it yet.
func (h *Held) Fresh() bool { return recently(h.said, lockLapse/2) }

// Note writes what this node is about, and says that it is still there; it must do so well within a minute. The error is
// ErrLockHeld if somebody else holds the lock, ErrLockMinority if too few could be reached, or names what is wrong: then
// nothing may be begun, and a Take after Free tells what holds.
func (h *Held) Note(ctx context.Context, text []byte) error {
	if len(text) > maxNote {
		return fmt.Errorf("a note of %d bytes is too long", len(text))
	}
	if !bytes.Equal(text, h.note.Text) {
		h.note = note{Term: h.term, Number: h.note.Number + 1, Text: bytes.Clone(text)}
	}
	at := time.Now()
	got := h.tell(ctx)
	// Only while its last word counts: after that another one may have held it, and what that wrote would be lost.
	if term := got.ahead(); h.Fresh() && term >= h.term && term-h.term < lockRise {
		h.term = term + 1
		h.note = note{Term: h.term, Number: 1, Text: h.note.Text}
		at, got = time.Now(), h.tell(ctx)
	}
	err := got.majority(func(a lockAnswer) bool { return a.OK })
	if err == nil {
		h.said = at
		return nil
	}
	return cmp.Or(got.held(), err)
}

func (h *Held) tell(ctx context.Context) voices {
	return h.l.all(ctx, lockMessage{Step: lockNote, Term: h.term, Name: h.l.cfg.Name, Token: h.token, Note: h.note})
}

// Free gives the lock back. The note stays.
func (h *Held) Free(ctx context.Context) {
	h.l.all(context.WithoutCancel(ctx), lockMessage{Step: lockFree, Token: h.token})
	h.l.leading.Unlock()
}

// voices is what everyone said to one message.
type voices struct {
	self    string                // id of who asked
	answers map[string]lockAnswer // by id
	faults  map[string]string     // by name
	names   map[string]string     // by id
}

// all tells this node first, and then everyone at one time.
func (l *Lock) all(ctx context.Context, msg lockMessage) voices {
	v := voices{l.cfg.ID, map[string]lockAnswer{}, map[string]string{}, map[string]string{l.cfg.ID: l.cfg.Name}}
	own := l.take(l.cfg.ID, msg)
	v.answers[l.cfg.ID] = own
	if !own.OK && msg.Step != lockFree {
		return v // it does not ask of others what it does not do itself
	}
	alive, failed, _ := l.cfg.Members()
	for _, m := range failed {
		v.faults[m.Name] = "it is away"
	}
	var (
		mu    sync.Mutex
		told  sync.WaitGroup
		limit = make(chan struct{}, lockAtOnce)
	)
	for _, m := range alive {
		if m.ID == l.cfg.ID {
			continue
		}
		v.names[m.ID] = m.Name
		limit <- struct{}{}
		told.Go(func() {
			defer func() { <-limit }()
			a, err := l.tell(ctx, m, msg)
			if err == nil && max(a.Term, a.Note.Term) > own.Term+maxLeap/2 { // others, who may be behind this node, would not take what follows from that
				err = errors.New("its count of who led is farther than anybody's can be: stop it and take its meshlock.json away")
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				v.faults[m.Name] = err.Error()
				return
			}
			v.answers[m.ID] = a
		})
	}
	told.Wait()
	return v
}

// majority fails unless more than half of all that anybody knows said so.
func (v voices) majority(yes func(lockAnswer) bool) error {
	voters, votes := map[string]bool{}, 0
	for _, a := range v.answers { // this node's own is one of them
		for _, id := range a.Known {
			voters[id] = true
		}
	}
	for _, a := range v.answers {
		if yes(a) {
			votes++
		}
	}
	if 2*votes > len(voters) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d go along, and more than half must%s: bring the others back; one that is off counts for a day, after a goodbye for an hour%s",
		ErrLockMinority, votes, len(voters), v.missing(yes), v.strangers(votes))
}

// strangers names those without whose word it would be a majority: they speak of members that this node has not met. A lie
// about that cannot be told from the truth of who came before it, so it counts, but not in secret.
func (v voices) strangers(votes int) string {
	met := v.answers[v.self].Known
	if 2*votes <= len(met) {
		return ""
	}
	var all []string
	for id, a := range v.answers {
		if n := len(slices.DeleteFunc(slices.Clone(a.Known), func(id string) bool { return slices.Contains(met, id) })); n > 0 {
			all = append(all, fmt.Sprintf("%s speaks of %d", v.names[id], n))
		}
	}
	slices.Sort(all)
	return "; of members that this node has not met " + strings.Join(all[:min(len(all), 8)], ", ") + ": if there are none such, stop that node"
}

// missing names who does not go along, and why.
func (v voices) missing(yes func(lockAnswer) bool) string {
	var all []string
	for name, fault := range v.faults {
		all = append(all, name+": "+fault)
	}
	for id, a := range v.answers {
		if yes(a) {
			continue
		}
		why := "it has another one's word"
		switch a.Why {
		case lockNotKept:
			why = "it cannot write its file: its log says why"
		case lockLate, lockNotYours:
			why = "it has heard of a later try"
		case lockSenseless:
			why = "it makes nothing of the message: update the older of the two nodes"
		}
		all = append(all, v.names[id]+": "+why)
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return " (" + strings.Join(all[:min(len(all), 8)], "; ") + ")"
}

// held names another one that has the lock.
func (v voices) held() error {
	for _, a := range v.answers {
		if a.Owner != "" && a.Owner != v.self && a.Holds {
			return &LockedError{Name: a.Name, Left: time.Duration(a.LeftMS) * time.Millisecond}
		}
	}
	return nil
}

// other is errBoth if somebody else has got voices, whom it names, or had meanwhile.
func (v voices) other() (err error) {
	for _, a := range v.answers {
		if a.Owner != "" && a.Owner != v.self {
			return fmt.Errorf("%w (%s)", errBoth, a.Name)
		}
		if a.Why == lockLate {
			err = errBoth
		}
	}
	return err
}

// ahead is the highest term of those who gave their voice to a try that came to nothing, which was of the holder's own term or
// a later one, and have it back: they would not hear the holder for as long as it holds. Its voices are given to it, so nobody
// else has a majority meanwhile, and it may count on from there.
func (v voices) ahead() (highest uint64) {
	for _, a := range v.answers {
		if a.Why == lockLate {
			highest = max(highest, a.Term)
		}
	}
	return highest
}

func (v voices) term() (highest uint64) {
	for _, a := range v.answers {
		highest = max(highest, a.Term, a.Note.Term)
	}
	return highest
}

func (v voices) newest() (n note) {
	for _, a := range v.answers {
		if a.Note.newer(n) {
			n = a.Note
		}
	}
	return n
}
