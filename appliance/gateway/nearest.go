package gateway

// nearest returns the name that takes the fewest edits to reach from want, "" without names or when none comes close
// enough to be meant.
func nearest(want string, names []string) string {
	best, least := "", max(3, len(want)/2)+1
	for _, name := range names {
		if d := edits(want, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
