package gateway

// counted learns from an engine's count of a whole prompt.
func (r *rates) counted(model string, p *prefix, tokens int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(model).scale.Learn(p.whole, tokens)
}

// marks tells how many tokens of a prompt each of its links stands for. The estimate only shares out what the engine has
// counted.
func (r *rates) marks(model string, p *prefix, tokens int) []int {
	r.mu.Lock()
	scale := r.of(model).scale
	r.mu.Unlock()
	marks, last := make([]int, len(p.Links)), 0
	whole := max(1, scale.Estimate(p.whole))
	for i, end := range p.ends {
		last = max(last, int(float64(tokens)*min(1, float64(scale.Estimate(end))/float64(whole))))
		marks[i] = last
	}
	return marks
}

// prompt is how many tokens a prompt has by estimate; 0 = unknown. Of its first links the engine's count is known, if
// matched is not 0.
func (r *rates) prompt(model string, p *prefix, matched, counted int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(model).scale.Prompt(p, p.step(matched-1), counted)
}

// step is which step the i-th link kept stands for, counted from 1: what at undoes. 0 = none.
func (p *prefix) step(i int) int {
	if i < 0 || p.steps == len(p.Links) || i < maxHeads {
		return i + 1
	}
	return p.steps - (len(p.Links) - 1 - i)
}
