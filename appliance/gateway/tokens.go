package gateway

const (
	// firstTextScale and firstDataScale are believed of a model until something is measured: bytes of text for each token, and
	// tokens of a picture or the like.
	firstTextScale = 4
	firstDataScale = 1000
	// minMeasured is from how many tokens on a prompt tells something: in a short one the template's own tokens weigh more.
	minMeasured = 64
	// Bounds of what a tokenizer does. What lies outside was not counted over the same prompt.
	minTextScale, maxTextScale = 0.5, 40
	minDataScale, maxDataScale = 8, 50_000
	// textShare is how many tokens of text there may be for each of a picture's for it to teach what a picture has: of much text
	// the error alone is larger.
	textShare = 4
	// scaleWeight is that of a new measure once there are several; outlier by how much one may differ from what is known.
	scaleWeight = 0.1
	outlier     = 2
)

// tokenScale tells how many tokens of a model's a length of prompt has, learnt from what its engine counted. The zero value
// knows nothing yet. It is not safe for use by several goroutines.
type tokenScale struct {
	text, data measure
}

// measure is a mean in which a new value counts for less the more there were.
type measure struct {
	mean float64
	n    int
}

// Learn takes in that the engine counted tokens for a whole prompt.
func (s *tokenScale) Learn(prompt extent, tokens int) {
	if tokens < minMeasured || prompt.text < 0 || prompt.data < 0 {
		return
	}
	if prompt.data == 0 {
		s.text.take(float64(prompt.text)/float64(tokens), firstTextScale, minTextScale, maxTextScale)
		return
	}
	text, parts := float64(prompt.text)/s.text.or(firstTextScale), float64(prompt.data)
	if text > textShare*parts*s.data.or(firstDataScale) {
		return
	}
	s.data.take((float64(tokens)-text)/parts, firstDataScale, minDataScale, maxDataScale)
}

// Estimate is how many tokens a length of prompt probably has.
func (s *tokenScale) Estimate(e extent) int {
	tokens := float64(max(0, e.text))/s.text.or(firstTextScale) + float64(max(0, e.data))*s.data.or(firstDataScale)
	return int(tokens + 0.5)
}

// Prompt is how many tokens a prompt probably has of whose first steps the engine has counted the tokens; steps 0 = of none.
func (s *tokenScale) Prompt(p *prefix, steps, counted int) int {
	if steps <= 0 {
		return s.Estimate(p.whole)
	}
	return max(0, counted) + s.Estimate(p.whole.since(p.end(steps)))
}

func (m measure) or(first float64) float64 {
	if m.n == 0 {
		return first
	}
	return m.mean
}

// take counts v in, as far from what is known as an outlier may be, unless it cannot be at all. The first value replaces what was
// assumed by half.
func (m *measure) take(v, first, least, most float64) {
	if !(v >= least && v <= most) { // NaN is neither
		return
	}
	mean := m.or(first)
	if m.n > 0 {
		v = min(max(v, mean/outlier), mean*outlier)
	}
	weight := max(scaleWeight, 1/float64(m.n+2))
	m.mean, m.n = mean+weight*(v-mean), m.n+1
	if m.n > 1<<20 {
		m.n = 1 << 20
	}
}
