package gateway

import "math"

const (
	// settled is from how many values on a mean is sure enough to hold back what is far from it.
	settled = 5
	// farOff is by how much a value may differ from a settled mean: more counts as that much, so that one freak moves
	// nothing, and a card that has become slower is believed after a few answers.
	farOff = 4
)

// ewma is a mean in which each new value counts for a fixed share, and more while there are few.
type ewma struct {
	Mean   float64 `json:"mean"`
	Values int     `json:"values"`
}

// add counts v in unless it cannot be true. NaN lies within no bounds.
func (m *ewma) add(v, share, least, most float64) {
	if !(v >= least && v <= most) {
		return
	}
	if m.Values >= settled {
		v = min(max(v, m.Mean/farOff), m.Mean*farOff)
	}
	m.Values = min(m.Values+1, 1<<20)
	m.Mean += max(share, 1/float64(m.Values)) * (v - m.Mean)
}

// possible tells whether a mean that was read from a file is one that add can have made.
func (m ewma) possible(least, most float64) bool {
	return m.Values == 0 && m.Mean == 0 || m.Values > 0 && m.Values <= 1<<20 && m.Mean >= least && m.Mean <= most
}

// round2 is v with two digits: what changes less is no news to others.
func round2(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}
