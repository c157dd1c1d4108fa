package history

import (
	"math"

	"viiwork/appliance/status"
)

// Counts of times are by steps of a quarter from 10 ms on: the mistake of a quantile is 12 % at most, and the counts of
// nodes can be added.
const (
	least   = 10.0 // milliseconds
	growth  = 1.25
	buckets = 60 // up to 80 min
)

func counted(counts []int, ms float64) []int {
	i := 0
	if ms >= least {
		i = min(buckets-1, 1+int(math.Log(ms/least)/math.Log(growth)))
	}
	for len(counts) <= i {
		counts = append(counts, 0)
	}
	counts[i]++
	return counts
}

// Add adds counts of one kind. What no node counts so is left out.
func Add(all, more []int) []int {
	for i, n := range more {
		if i >= buckets || n < 0 || n > 1<<30 {
			break
		}
		for len(all) <= i {
			all = append(all, 0)
		}
		all[i] += n
	}
	return all
}

// Count is how many there are.
func Count(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Quantile is the time in milliseconds that a share of them stays below, nil where there are none.
func Quantile(counts []int, share float64) *float64 {
	all := Count(counts)
	if all == 0 {
		return nil
	}
	rank := max(1, int(math.Ceil(share*float64(all))))
	for i, c := range counts {
		if rank -= c; rank <= 0 {
			v := least / 2
			if i > 0 {
				v = least * math.Pow(growth, float64(i)-0.5)
			}
			return &v
		}
	}
	return nil
}

// Class says how warm a turn began: warm if 90 % of its prompt was cached, partly from 30 %, else cold; "" = not known.
func Class(r status.Request) string {
	if r.PromptTokens == nil || r.CachedTokens == nil || *r.PromptTokens <= 0 {
		return ""
	}
	switch share := float64(*r.CachedTokens) / float64(*r.PromptTokens); {
	case share >= 0.9:
		return "warm"
	case share >= 0.3:
		return "partly"
	}
	return "cold"
}
