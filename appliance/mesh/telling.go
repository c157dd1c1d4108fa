package mesh

import (
	"encoding/base64"
	"errors"
	"time"
)

// tellAtOnce is about how many bytes of residents one line has: a long one would keep back what is urgent.
const tellAtOnce = 32 << 10

// holdings is a line about what a node holds: what is new, has grown or is gone since the lines before it.
type holdings struct {
	Begin bool       `json:"begin,omitempty"` // forget what was said before
	Held  []heldLine `json:"held,omitempty"`
	Gone  []uint64   `json:"gone,omitempty"`
}

// heldLine is one resident. Of a chain that was told already only the end is: Keep links of it stand.
type heldLine struct {
	ID      uint64 `json:"id"`
	Of      uint64 `json:"of,omitempty"` // the resident whose first Keep links these are; it is gone then
	Keep    int    `json:"keep,omitempty"`
	Model   string `json:"model"`
	Backend string `json:"backend,omitempty"` // absent: it lies in the store,
	Replica string `json:"replica,omitempty"` // under this name
	Session string `json:"session,omitempty"`
	Source  string `json:"source,omitempty"`
	Links   string `json:"links,omitempty"` // 16 bytes each, base64
	Marks   []int  `json:"marks,omitempty"`
	Tokens  int    `json:"tokens"`
	IdleMS  int64  `json:"idle_ms"`
}

var packing = base64.RawStdEncoding

func pack(links []Link) string {
	b := make([]byte, 0, 16*len(links))
	for _, l := range links {
		b = append(b, l[:]...)
	}
	return packing.EncodeToString(b)
}

var errHolding = errors.New("reading what a member holds: a line is not of the kind expected")

func unpack(s string) ([]Link, error) {
	if len(s) > packing.EncodedLen(16*MaxChain) {
		return nil, errTooMuch
	}
	b, err := packing.DecodeString(s)
	if err != nil || len(b)%16 != 0 {
		return nil, errHolding
	}
	links := make([]Link, len(b)/16)
	for i := range links {
		copy(links[i][:], b[16*i:])
	}
	return links, nil
}

// teller knows what one follower has been told of this node's residents.
type teller struct {
	told  map[uint64]*Resident
	begun bool
}

// lines gives what is to be told so that the follower knows of all in now, and of nothing else.
func (t *teller) lines(now []*Resident, at time.Time) [][]byte {
	held, gone := t.news(now, at)
	var out [][]byte
	part := holdings{Begin: !t.begun, Gone: gone} // first: what is new may need the room
	size := 0
	send := func() {
		out = append(out, encode(line{Holdings: &part}))
		part, size = holdings{}, 0
	}
	for _, l := range held {
		part.Held = append(part.Held, l)
		if size += 300 + len(l.Links) + 7*len(l.Marks); size > tellAtOnce {
			send()
		}
	}
	if len(part.Held)+len(part.Gone) > 0 || !t.begun && len(out) == 0 {
		send()
	}
	t.begun = true
	return out
}

// news is what the follower has not been told of, and the numbers of what is gone without having become any of that.
func (t *teller) news(now []*Resident, at time.Time) (held []heldLine, gone []uint64) {
	was := t.told
	t.told = make(map[uint64]*Resident, len(now))
	var fresh []*Resident
	for _, r := range now {
		t.told[r.id] = r
		if was[r.id] == nil {
			fresh = append(fresh, r)
		}
		delete(was, r.id)
	}
	for _, r := range fresh {
		l := r.line(was, at)
		delete(was, l.Of)
		held = append(held, l)
	}
	for id := range was {
		gone = append(gone, id)
	}
	return held, gone
}

// line tells of r, by what it has in common with the one it has come out of.
func (r *Resident) line(gone map[uint64]*Resident, at time.Time) heldLine {
	l := heldLine{
		ID: r.id, Model: r.Model, Backend: r.Backend, Replica: r.Replica, Session: r.Session, Source: r.Source, Tokens: r.Tokens,
		IdleMS: min(max(0, at.Sub(r.Active).Milliseconds()), maxCount),
	}
	if was := gone[r.from]; was != nil {
		n := 0
		for n < min(len(r.Chain), len(was.Chain)) && r.Chain[n] == was.Chain[n] && r.Marks[n] == was.Marks[n] {
			n++
		}
		l.Of, l.Keep = was.id, n
	}
	l.Links, l.Marks = pack(r.Chain[l.Keep:]), r.Marks[l.Keep:]
	return l
}

// hearing is what one member has told of its residents.
type hearing struct {
	residents map[uint64]*Resident
	links     int
}

// take adds a line to what was heard before. On an error nothing of the member's word about this is to be kept.
func (h *hearing) take(l *holdings, now time.Time) error {
	if l.Begin || h.residents == nil {
		h.residents, h.links = map[uint64]*Resident{}, 0
	}
	for _, id := range l.Gone {
		h.drop(id)
	}
	for i := range l.Held {
		r, err := h.resident(&l.Held[i], now)
		if err != nil {
			return err
		}
		h.drop(l.Held[i].Of)
		h.drop(r.id)
		h.residents[r.id] = r
		h.links += r.length
	}
	if h.links > maxLinks || len(h.residents) > maxResidents { // in between it may be more: others shrink in the same line
		return errTooMuch
	}
	return nil
}

func (h *hearing) drop(id uint64) {
	if r := h.residents[id]; r != nil {
		h.links -= r.length
		delete(h.residents, id)
	}
}

func (h *hearing) resident(l *heldLine, now time.Time) (*Resident, error) {
	tail, err := unpack(l.Links)
	if err != nil {
		return nil, err
	}
	if l.IdleMS < 0 || l.IdleMS > maxCount || l.Keep < 0 {
		return nil, errTooMuch
	}
	r := &Resident{
		id: l.ID, Model: l.Model, Backend: l.Backend, Replica: l.Replica, Session: l.Session, Source: l.Source, Tokens: l.Tokens,
		Active: now.Add(-time.Duration(l.IdleMS) * time.Millisecond),
	}
	if l.Keep > 0 {
		was := h.residents[l.Of]
		if was == nil || l.Keep > was.length {
			return nil, errHolding
		}
		if len(was.Chain) < was.length { // there was no room for it, so there is no chain to go on with
			r.length = min(l.Keep+len(tail), MaxChain)
			return r, r.check()
		}
		r.Chain, r.Marks = was.Chain[:l.Keep:l.Keep], was.Marks[:l.Keep:l.Keep]
	}
	r.Chain, r.Marks = append(r.Chain, tail...), append(r.Marks, l.Marks...)
	r.length = len(r.Chain)
	return r, r.check()
}
