package route

import (
	"math"
	"slices"
)

// What is taken for granted where nobody has measured: a middling card with a middling model and an agent at work.
const (
	usualPrefill  = 500.0
	usualDecode   = 25.0
	usualSlowdown = 0.2
	usualOutput   = 419.0
	usualThink    = 14.0
	usualTurn     = 20.0
)

// Bounds of what is believed.
const (
	minRate   = 0.1
	maxRate   = 1e7
	maxTokens = 1 << 30
)

// orElse is v if it can be true, within its bounds; else what is usual. Unknown, which is zero, is else too.
func orElse(v, least, most, usual float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) { // NaN is not more than zero
		return usual
	}
	return min(max(v, least), most)
}

// count is a number of things, bounded.
func count(n int) int { return min(max(0, n), maxTokens) }

// sample is a bounded number of figures of which the median is taken: at most as many as it has room for.
type sample struct {
	known  [64]float64
	number int
}

func (m *sample) add(v float64) {
	if v > 0 && m.number < len(m.known) {
		m.known[m.number] = v
		m.number++
	}
}

func (m *sample) median(usual float64) float64 {
	if m.number == 0 {
		return usual
	}
	slices.Sort(m.known[:m.number])
	return m.known[m.number/2]
}

// stride spreads a sample over the nodes of a large mesh.
func (s *Snapshot) stride() int { return 1 + len(s.Nodes)/64 }

// rates are the medians of what the backends have told.
func (s *Snapshot) rates() (prefill, decode float64) {
	var p, d sample
	for i := 0; i < len(s.Nodes); i += s.stride() {
		if s.Nodes[i].Stale {
			continue
		}
		for j := range s.Nodes[i].Backends {
			b := &s.Nodes[i].Backends[j]
			p.add(orElse(b.Prefill, minRate, maxRate, 0))
			d.add(orElse(b.Decode, minRate, maxRate, 0))
		}
	}
	return p.median(usualPrefill), d.median(usualDecode)
}

// score is the median of the nodes' scores, 0 without any.
func (s *Snapshot) score() float64 {
	var m sample
	for i := 0; i < len(s.Nodes); i += s.stride() {
		if n := &s.Nodes[i]; !n.Stale {
			m.add(n.score())
		}
	}
	return m.median(0)
}

// usualHold is the mean of the nodes that know how long requests hold their slots.
func usualHold(s *Snapshot) float64 {
	sum, known := 0.0, 0
	for i := range s.Nodes {
		if h := s.Nodes[i].Hold.Seconds(); h > 0 {
			sum += h
			known++
		}
	}
	if known == 0 {
		return usualTurn
	}
	return sum / float64(known)
}
