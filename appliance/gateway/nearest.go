package gateway

import "github.com/hbollon/go-edlib"

// nearest returns the name that takes the fewest edits to reach from want, "" without names or when none comes close
// enough to be meant.
func nearest(want string, names []string) string {
	best, least := "", max(3, len(want)/2)+1
	for _, name := range names {
		if d := edlib.OSADamerauLevenshteinDistance(want, name); d < least {
			best, least = name, d
		}
	}
	return best
}
