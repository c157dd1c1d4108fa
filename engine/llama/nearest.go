package llama

import (
	"maps"
	"slices"
)

// nearest finds the known flag most like a misspelt one; "" when none is close enough to be meant.
func nearest(name string, known map[string]bool) string {
	best, near := "", max(2, len(name)/4)+1
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := distance(name, k, near); d < near {
			best, near = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements of bytes between a and b (Levenshtein), giving up at limit.
func distance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff >= limit || -diff >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			swap := diagonal
			if a[i] != b[j] {
				swap++
			}
			diagonal = row[j+1]
			row[j+1] = min(swap, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
