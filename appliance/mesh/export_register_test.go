package mesh

import (
	"crypto/sha256"
	"testing"
	"time"

	"viiwork/appliance/status"
)

// What tests of the register may look at.

// DigestOf makes a link of a prompt.
func DigestOf(prompt []byte) Link {
	d := sha256.Sum256(prompt)
	return Link(d[:16])
}

// Own lists what this node holds.
func Own(r *Register) []*Resident { return r.told() }

// Indexed counts the links and the spots that a search can find.
func Indexed(r *Register) (links, sites int) { return len(r.index.links), len(r.index.sites) }

// Credits counts the members that something is known against.
func Credits(r *Register) int { return len(r.credits) }

// Doubted is the warning about a member.
func Doubted(r *Register, m Member) (status.Warning, bool) { return r.doubted(m) }

// TellOf makes a member say that it holds one resident more, active now unless that is set.
func TellOf(t testing.TB, r *Register, member string, s Resident) {
	t.Helper()
	if s.Active.IsZero() {
		s.Active = time.Now()
	}
	r.last++
	s.id = r.last
	h := &hearing{residents: map[uint64]*Resident{}}
	for id, was := range r.others[member] {
		h.residents[id] = was
		h.links += len(was.Chain)
	}
	if err := r.hear(member, &holdings{Held: []heldLine{newResident(s).line(nil, time.Now())}}, h); err != nil {
		t.Fatal(err)
	}
}

// Telling is a teller and what its follower has heard.
type Telling struct {
	from, to *Register
	teller   teller
	hearing  hearing
	Member   string // who holds it
	Lines    [][]byte
}

// NewTelling makes to hear what from holds.
func NewTelling(from, to *Register) *Telling { return &Telling{from: from, to: to, Member: "n02"} }

// Tell passes on what is new; the lines are kept for a look.
func (t *Telling) Tell() error {
	t.Lines = t.teller.lines(t.from.told(), t.from.cfg.Now())
	for _, data := range t.Lines {
		l, err := parseLine(data)
		if err != nil {
			return err
		}
		if err := t.to.hear(t.Member, l.Holdings, &t.hearing); err != nil {
			return err
		}
	}
	return nil
}

// Heard lists what a member is believed to hold.
func Heard(r *Register, member string) (all []*Resident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.others[member] {
		all = append(all, s)
	}
	return all
}

// HearLines makes r take the lines of a stranger's stream, as a follower does.
func HearLines(r *Register, lines [][]byte) (told hearing, err error) {
	for _, data := range lines {
		l, err := parseLine(data)
		if err != nil || l.Holdings == nil {
			return told, err
		}
		if err := r.hear("n02", l.Holdings, &told); err != nil {
			return told, err
		}
	}
	return told, nil
}

// Size tells how much of a member's word is kept.
func (h hearing) Size() (residents, links int) { return len(h.residents), h.links }

// Bounds of what one member may hold.
const (
	MaxResidents = maxResidents
	MaxLinks     = maxLinks
	MaxIndex     = maxIndex
	MaxStored    = maxStored
	KeptStored   = keptStored
	MaxMembers   = maxMembers
	TellAtOnce   = tellAtOnce
)
