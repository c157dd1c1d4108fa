package mesh

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// lockLapse is how long a holder's word counts. Half of it is longer than a signed message may be on its way (maxSkew, by
	// clocks that are maxSkew apart): so a member obeys a holder for half of it only, and nobody who obeyed late does so when
	// others may have another holder.
	lockLapse = 4 * maxSkew
	// lockForget is how long the voice of a member counts that gossip has lost, lockLeave that of one that said goodbye. Both are
	// much longer than a holder is silent: by then a majority of the others has its notes.
	lockForget = 24 * time.Hour
	lockLeave  = time.Hour
	// maxNote bounds what a holder writes: a line for each of maxMembers.
	maxNote = 256 << 10
	// maxTerm keeps the count far from where it would begin anew, maxLeap bounds by how much a member may raise it.
	maxTerm = 1 << 53
	maxLeap = 1_000_000
)

// Reasons the lock is not taken or not held any more. ErrLockHeld is a [LockedError], too.
var (
	ErrLockHeld     = errors.New("somebody else has the lock of the mesh")
	ErrLockMinority = errors.New("too few members can be reached")
	ErrLockOpen     = errors.New("this mesh is open, and in an open mesh no member takes another's word: give it a secret first (docs/mesh.md)")
)

// LockedError says who has the lock.
type LockedError struct {
	Name string        // of the node
	Left time.Duration // until its word lapses, if it says no more
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s leads at this moment: follow it there, or try again in %s if that machine is gone", e.Name, e.Left.Round(time.Second))
}

func (e *LockedError) Is(target error) bool { return target == ErrLockHeld }

// LockConfig is what a Lock is made of.
type LockConfig struct {
	ID, Name string // of this node
	Dir      string // where meshlock.json is kept; "" = not kept
	Keys     *Keyring
	Client   *Client
	Verifier *Verifier
	// Members are the others: those gossip holds for alive, those it lost without a goodbye, and those that said one. The voices
	// of all count, of the latter for a while.
	Members  func() (alive, failed, left []Member)
	Changed  func()        // the holder or the note is another one; nil = nobody asks. It must not wait
	Patience time.Duration // with one member; 0 = 10 s
	Log      *slog.Logger  // nil = silent
}

// Lock is this node's part in the lock of the whole mesh. Who holds it may lead what must have one leader, and leaves a note of
// what it is about that whoever comes after it will find.
//
// Each member gives its voice to one node at a time and takes it back only when that node has said nothing for two minutes, by
// the member's own clock. A majority of all who are known to anybody asked makes a holder, those included that were lost or
// left a short time ago; a note counts once a majority has it. Two majorities share a member: so there is one holder, and the
// next one reads the last note.
// Who is cut off from the majority holds nothing. A node that comes back after it led takes its own voices over at once.
type Lock struct {
	cfg     LockConfig
	path    string
	leading sync.Mutex // one Take at a time

	mu    sync.Mutex // guards what follows; held while the file is written
	state lockState
	heard time.Time            // from the holder: here, never by its clock
	quiet time.Time            // until then no voice is given: what was given before is not known
	seen  map[string]time.Time // when gossip last had a member whose voice counts, by id
	kept  error                // why the file could not be written the last time
}

// lockState is one node's voice and the newest note it knows, and what its file holds.
type lockState struct {
	Term  uint64 `json:"term"`            // counts who tried to hold it
	Owner string `json:"owner,omitempty"` // id of whom the voice was given to; "" = nobody, or it gave it back
	Name  string `json:"name,omitempty"`
	Token string `json:"token,omitempty"` // of that hold
	Holds bool   `json:"holds,omitempty"` // it has written a note: it had a majority
	Note  note   `json:"note"`
	// Known are the ids of everyone whose voice counts: who has just started does not see them yet, and would be the majority
	// of itself.
	Known []string `json:"known,omitempty"`
}

// note is what a holder wrote. Of two notes the one of the later term counts, of one term the one with the higher number.
type note struct {
	Term   uint64 `json:"term"`
	Number uint64 `json:"number"`
	Text   []byte `json:"text,omitempty"`
}

func (n note) newer(than note) bool {
	return n.Term > than.Term || n.Term == than.Term && n.Number > than.Number
}

// NewLock makes a Lock from what an earlier run kept. Call it while no other process has the folder.
func NewLock(cfg LockConfig) *Lock {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience <= 0 {
		cfg.Patience = patience
	}
	l := &Lock{cfg: cfg, heard: time.Now(), seen: map[string]time.Time{}} // a voice that was given before the start lapses anew: later than it would have
	if cfg.Dir != "" {
		l.path = filepath.Join(cfg.Dir, "meshlock.json")
		l.load()
	}
	return l
}

// LockView is how the lock stands, as this node has heard.
type LockView struct {
	Owner, Name string        // of who holds it; "" = nobody
	Left        time.Duration // until its word lapses, if it says no more
	Note        []byte        // the newest, whoever wrote it; shared: it must not be changed
}

// View tells how it stands.
func (l *Lock) View() LockView {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := LockView{Note: l.state.Note.Text}
	if l.given() && l.state.Holds {
		v.Owner, v.Name, v.Left = l.state.Owner, l.state.Name, lockLapse-time.Since(l.heard)
	}
	return v
}

// Obeys reports whether the member that sent a request holds the lock under token, and said so a short time ago: whoever does
// what it wants does so before anybody else can hold it.
func (l *Lock) Obeys(id, token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Owner == id && l.state.Token == token && l.state.Holds && recently(l.heard, lockLapse/2)
}

// Mute says why this node cannot obey anybody, "" when it can: it gives no voice that it could not keep. It is for other members,
// so it names no file.
func (l *Lock) Mute() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		return ""
	}
	why := "its log says why"
	if fault := syscall.Errno(0); errors.As(l.kept, &fault) {
		why = fault.Error()
	}
	return "it cannot write to its state folder (" + why + "): make room or mend that there"
}

// recently is false as well if this machine slept meanwhile: then only the clock on the wall has gone on.
func recently(at time.Time, within time.Duration) bool {
	now := time.Now()
	return now.Sub(at) < within && now.Round(0).Sub(at.Round(0)) < within
}

// given reports whether this node's voice is given. It wants the lock held.
func (l *Lock) given() bool { return l.state.Owner != "" && time.Since(l.heard) < lockLapse }

// Codes of why a member does not go along.
const (
	lockGiven     = "held"    // its voice is given to somebody else
	lockLate      = "older"   // it knows of a later try
	lockNotYours  = "other"   // its voice is not given to this hold
	lockNotKept   = "disk"    // it cannot write its file
	lockSenseless = "message" // the message makes no sense
)

// take answers one message of a member, this node included.
func (l *Lock) take(from string, m lockMessage) lockAnswer {
	why := lockSenseless
	l.mu.Lock()
	was := l.state
	switch {
	case !m.sound(l.state.Term):
	case m.Step == lockAsk:
		why = ""
	case m.Step == lockTry:
		why = l.promise(from, m, false)
	case m.Step == lockNote:
		why = l.promise(from, m, true)
	case m.Step == lockFree && (was.Owner != from || was.Token != m.Token):
		why = lockNotYours
	case m.Step == lockFree:
		next := was
		next.Owner, next.Name, next.Token, next.Holds = "", "", "", false
		why = l.become(next)
	}
	now := l.state
	a := lockAnswer{OK: why == "", Why: why, Term: now.Term, Note: now.Note, Known: l.known()}
	if l.given() {
		a.Owner, a.Name, a.Holds, a.LeftMS = now.Owner, now.Name, now.Holds, (lockLapse - time.Since(l.heard)).Milliseconds()
	}
	l.mu.Unlock()
	if l.cfg.Changed != nil && (was.Owner != now.Owner || was.Holds != now.Holds || now.Note.newer(was.Note)) {
		l.cfg.Changed()
	}
	return a
}

// promise gives the voice to who asks for it, and takes its note.
func (l *Lock) promise(from string, m lockMessage, holds bool) (why string) {
	s := l.state
	same := s.Owner == from && s.Token == m.Token && s.Term == m.Term
	switch {
	case same && !holds, same && m.Note.Number < s.Note.Number && s.Note.Term == m.Term:
		return lockLate // it came late
	case same:
	case s.Owner != from && (l.given() || time.Now().Before(l.quiet)):
		return lockGiven
	case m.Term <= s.Term:
		return lockLate
	}
	next := lockState{Term: m.Term, Owner: from, Name: m.Name, Token: m.Token, Holds: holds, Note: s.Note}
	if holds && m.Note.newer(s.Note) {
		next.Note = m.Note
	}
	return l.become(next)
}

// become makes s the state, on disk or not at all. That the holder is still there needs no writing.
func (l *Lock) become(s lockState) (why string) {
	was := l.state
	s.Known = l.known()
	if s.Term != was.Term || s.Token != was.Token || s.Holds != was.Holds || s.Note.newer(was.Note) || !slices.Equal(s.Known, was.Known) {
		if err := s.store(l.path); err != nil {
			l.cfg.Log.Error("the lock of the mesh cannot be kept: this node gives no voice", "error", err)
			l.kept = err
			return lockNotKept
		}
		l.kept = nil
	}
	l.state, l.heard = s, time.Now()
	return ""
}

// known are the ids of everyone whose voice counts, as this node sees it: those who live, those who did a day ago, and those
// that said goodbye within the last hour. It wants the lock held.
func (l *Lock) known() []string {
	alive, failed, left := l.cfg.Members()
	now := time.Now()
	for _, m := range alive {
		l.seen[m.ID] = now
	}
	for _, m := range failed {
		if _, met := l.seen[m.ID]; !met { // it was lost before this node came
			l.seen[m.ID] = now
		}
	}
	for _, m := range left {
		if now.Sub(l.seen[m.ID]) > lockLeave {
			delete(l.seen, m.ID)
		}
	}
	ids := []string{l.cfg.ID}
	for id, at := range l.seen {
		switch age := now.Sub(at); {
		case age > 2*lockForget:
			delete(l.seen, id) // not earlier: gossip may hold it for lost until then, and it would count anew
		case age <= lockForget && id != l.cfg.ID:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxMembers)]
}

// newToken names one hold.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
