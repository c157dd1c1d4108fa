package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// line is one line of a capacity stream: exactly one of its fields is set.
type line struct {
	Report *Report `json:"report,omitempty"` // all there is to say
	Change *change `json:"change,omitempty"` // what is different since the line before
	Beat   *beat   `json:"beat,omitempty"`   // nothing is different
	// Holdings tells what the node's backends hold; only who asks for it gets such lines.
	Holdings *holdings `json:"residents,omitempty"`
}

// beat says that the node is alive and the report with this number still true.
type beat struct {
	Seq uint64 `json:"seq"`
}

// change carries the models and, in them, the backends that are different; a slot taken or freed is some 150 bytes
// where the report may have thousands. Names, sets and their order never change by it: then the report goes out whole.
type change struct {
	Seq    uint64        `json:"seq"`
	Models []changeModel `json:"models"`
}

type changeModel struct {
	Name     string    `json:"name"`
	Waiting  int       `json:"waiting"`
	HoldMS   int64     `json:"hold_ms"`
	WaitMS   *int64    `json:"wait_ms"`
	Score    float64   `json:"score,omitempty"`
	Output   float64   `json:"output_tokens,omitempty"`
	ThinkMS  int64     `json:"think_ms,omitempty"`
	KV       *KV       `json:"kv,omitempty"`
	Backends []Backend `json:"backends,omitempty"`
}

// diff gives what makes now out of was; false when only the whole report will do.
func diff(was, now *Report) (*change, bool) {
	if was.Wire != now.Wire || was.ID != now.ID || was.Name != now.Name || was.Version != now.Version ||
		was.Epoch != now.Epoch || was.Draining != now.Draining || !bytes.Equal(was.Session, now.Session) || len(was.Models) != len(now.Models) {
		return nil, false
	}
	c := &change{Seq: now.Seq, Models: []changeModel{}}
	for i, m := range now.Models {
		old := was.Models[i]
		if old.Name != m.Name || old.Digest != m.Digest || old.Context != m.Context || len(old.Backends) != len(m.Backends) {
			return nil, false
		}
		part := changeModel{Name: m.Name, Waiting: m.Waiting, HoldMS: m.HoldMS, WaitMS: m.WaitMS, Score: m.Score, Output: m.Output, ThinkMS: m.ThinkMS, KV: m.KV}
		for j, b := range m.Backends {
			if old.Backends[j].ID != b.ID {
				return nil, false
			}
			if !old.Backends[j].equal(b) {
				part.Backends = append(part.Backends, b)
			}
		}
		if part.Backends != nil || !old.figures(m) {
			c.Models = append(c.Models, part)
		}
	}
	return c, true
}

var errNoSuchPart = errors.New("reading a capacity change: it speaks of a model or backend that the report has not")

// apply makes a new report out of was and leaves was as it is.
func (c *change) apply(was *Report) (*Report, error) {
	now := *was
	now.Seq = c.Seq
	now.Models = slices.Clone(was.Models)
	for _, part := range c.Models {
		i := slices.IndexFunc(now.Models, func(m Model) bool { return m.Name == part.Name })
		if i < 0 {
			return nil, errNoSuchPart
		}
		m := &now.Models[i]
		m.Waiting, m.HoldMS, m.WaitMS = part.Waiting, part.HoldMS, part.WaitMS
		m.Score, m.Output, m.ThinkMS, m.KV = part.Score, part.Output, part.ThinkMS, part.KV
		m.Backends = slices.Clone(m.Backends)
		for _, b := range part.Backends {
			j := slices.IndexFunc(m.Backends, func(old Backend) bool { return old.ID == b.ID })
			if j < 0 {
				return nil, errNoSuchPart
			}
			m.Backends[j] = b
		}
	}
	return &now, now.check()
}

// figures tells whether those of two models are the same.
func (m Model) figures(o Model) bool {
	return m.Waiting == o.Waiting && m.HoldMS == o.HoldMS && same(m.WaitMS, o.WaitMS) && m.Score == o.Score && m.Output == o.Output && m.ThinkMS == o.ThinkMS && same(m.KV, o.KV)
}

func (b Backend) equal(o Backend) bool {
	rates := same(b.PrefillTPS, o.PrefillTPS) && same(b.DecodeTPS, o.DecodeTPS)
	b.PrefillTPS, b.DecodeTPS, o.PrefillTPS, o.DecodeTPS = nil, nil, nil, nil
	return rates && b == o
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

var errSequence = errors.New("reading a capacity stream: a line is missing")

// readLine takes one line of a stream after the report was (nil at its beginning) and gives the report that holds now.
func readLine(data []byte, was *Report) (*Report, error) {
	l, err := parseLine(data)
	if err != nil {
		return nil, err
	}
	return l.report(was)
}

func parseLine(data []byte) (line, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return line{}, errors.New("reading a capacity stream: a line is no JSON of the kind expected")
	}
	return l, nil
}

// report is what holds after the line, if it was the report before.
func (l line) report(was *Report) (*Report, error) {
	switch {
	case l.Report != nil:
		return l.Report, l.Report.check()
	case was == nil:
		return nil, errors.New("reading a capacity stream: it does not begin with a report")
	case l.Change != nil && l.Change.Seq == was.Seq+1:
		return l.Change.apply(was)
	case l.Beat != nil && l.Beat.Seq == was.Seq:
		return was, nil
	}
	return nil, errSequence
}
