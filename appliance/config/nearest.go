package config

import "strings"

// nearest is the candidate that word was most likely meant to be, or "".
func nearest(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	word = plain(word)
	best, allowed := "", 1+len(word)/5
	for _, c := range candidates {
		if d := slip(word, plain(c)); d <= allowed {
			best, allowed = c, d-1
		}
	}
	return best
}

// plain makes the common slips (queue-timeout, Models) equal to the key itself.
func plain(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// slip measures how far apart two words are; one that goes on where the other ends (warning, warn) is close.
func slip(a, b string) int {
	d := distance(a, b)
	if min(len(a), len(b)) >= 3 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return min(d, 1)
	}
	return d
}

// distance counts the letters to insert, drop, change or swap with their neighbour (optimal string alignment).
func distance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, row = old, row, older
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
