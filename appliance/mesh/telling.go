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
	Backend string `json:"backend"`
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
	var out [][]byte
	part := holdings{Begin: !t.begun}
	size := 0
	send := func() {
		out = append(out, encode(line{Holdings: &part}))
		part, size = holdings{}, 0
	}
	gone := t.told
	t.told = make(map[uint64]*Resident, len(now))
	for _, r := range now {
		t.told[r.id] = r
		if gone[r.id] != nil {
			delete(gone, r.id)
			continue
		}
		l := r.line(gone, at)
		if l.Of != 0 {
			delete(gone, l.Of)
		}
		part.Held = append(part.Held, l)
		if size += 300 + len(l.Links) + 7*len(l.Marks); size > tellAtOnce {
			send()
		}
	}
	for id := range gone {
		part.Gone = append(part.Gone, id)
	}
	if len(part.Held)+len(part.Gone) > 0 || !t.begun && len(out) == 0 {
		send()
	}
	t.begun = true
	return out
}

// line tells of r, by what it has in common with the one it has come out of.
func (r *Resident) line(gone map[uint64]*Resident, at time.Time) heldLine {
	l := heldLine{
		ID: r.id, Model: r.Model, Backend: r.Backend, Session: r.Session, Source: r.Source, Tokens: r.Tokens,
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
	for i := range l.Held {
		r, err := h.resident(&l.Held[i], now)
		if err != nil {
			return err
		}
		h.drop(l.Held[i].Of)
		h.drop(r.id)
		h.residents[r.id] = r
		if h.links += len(r.Chain); h.links > maxLinks || len(h.residents) > maxResidents {
			return errTooMuch
		}
	}
	for _, id := range l.Gone {
		h.drop(id)
	}
	return nil
}

func (h *hearing) drop(id uint64) {
	if r := h.residents[id]; r != nil {
		h.links -= len(r.Chain)
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
		id: l.ID, Model: l.Model, Backend: l.Backend, Session: l.Session, Source: l.Source, Tokens: l.Tokens,
		Active: now.Add(-time.Duration(l.IdleMS) * time.Millisecond),
	}
	if l.Keep > 0 {
		was := h.residents[l.Of]
		if was == nil || l.Keep > len(was.Chain) {
			return nil, errHolding
		}
		r.Chain, r.Marks = was.Chain[:l.Keep:l.Keep], was.Marks[:l.Keep:l.Keep]
	}
	r.Chain, r.Marks = append(r.Chain, tail...), append(r.Marks, l.Marks...)
	return r, r.check()
}
