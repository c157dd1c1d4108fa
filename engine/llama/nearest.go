package llama

import (
	"maps"
	"slices"

	"github.com/hbollon/go-edlib"
)

// nearest finds the known flag most like a misspelt one; "" when none is close enough to be meant.
func nearest(name string, known map[string]bool) string {
	best, near := "", max(2, len(name)/4)+1
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if diff := len(name) - len(k); diff >= near || -diff >= near {
			continue // further apart than that: an owner's value may be a megabyte long
		}
		if d := edlib.OSADamerauLevenshteinDistance(name, k); d < near {
			best, near = k, d
		}
	}
	return best
}
