package config

import (
	"strings"

	"github.com/hbollon/go-edlib"
)

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
	d := edlib.OSADamerauLevenshteinDistance(a, b)
	if min(len(a), len(b)) >= 3 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return min(d, 1)
	}
	return d
}
