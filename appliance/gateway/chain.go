package gateway

import "viiwork/appliance/mesh"

// chain is a prompt by its steps: a link for each, and how many tokens it has up to there by estimate. The estimate only
// shares out what the engine has counted.
type chain struct {
	links []mesh.Link
	ends  []int
	whole int
}

// marks says how many of the prompt's tokens each link stands for.
func (c chain) marks(prompt int) []int {
	if len(c.links) == 0 {
		return nil
	}
	marks := make([]int, len(c.links))
	last := 0
	for i, end := range c.ends {
		if c.whole > 0 {
			last = max(last, int(float64(prompt)*min(1, float64(end)/float64(c.whole))))
		}
		marks[i] = last
	}
	return marks
}
