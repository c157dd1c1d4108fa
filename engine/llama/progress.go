package llama

import "strings"

// Progress reads the share of loading done. Builds that show it print one dot a percent on a line of their own after
// announcing the tensors; others print nothing, and the share is then unknown (-1), not 0.
func (d *Dialect) Progress(log string) float64 {
	at := strings.LastIndex(log, "loading model tensors")
	if at < 0 {
		return -1
	}
	dots := 0
	for line := range strings.Lines(log[at:]) {
		if line = strings.TrimSpace(line); strings.Trim(line, ".") == "" {
			dots = max(dots, len(line))
		}
	}
	if dots == 0 {
		return -1
	}
	return float64(min(dots, 100)) / 100
}
