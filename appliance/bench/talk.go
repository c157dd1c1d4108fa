package bench

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// gauge is how many bytes of our text are a token, as far as answers have shown.
type gauge struct {
	mu    sync.Mutex
	ratio float64
}

const (
	usualRatio = 4.0
	leastRatio = 0.5
	mostRatio  = 16.0
)

func (g *gauge) bytes(tokens int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(float64(tokens) * g.ratio)
}

// saw learns from a text and the tokens that it came to.
func (g *gauge) saw(bytes, tokens int) {
	if bytes < 200 || tokens < 20 {
		return // too little to tell the text from what stands around it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ratio = min(max(0.9*g.ratio+0.1*float64(bytes)/float64(tokens), leastRatio), mostRatio)
}

// talk is one conversation as its client holds it.
type talk struct {
	messages []message
	size     int // bytes of text
	rng      *rand.Rand
	gauge    *gauge
}

// begin starts with the head that all share.
func (t *talk) begin(head string) {
	t.messages, t.size = nil, 0
	t.add("system", head)
}

func (t *talk) add(role, content string) {
	t.messages = append(t.messages, message{role, content})
	t.size += len(content)
}

// say adds so many tokens of new text.
func (t *talk) say(tokens int) { t.add("user", babble(t.rng, max(4, t.gauge.bytes(tokens)))) }

// heard adds an answer. One without text is said in a word: some templates refuse empty messages.
func (t *talk) heard(text string) {
	if strings.TrimSpace(text) == "" {
		text = "ok"
	}
	t.add("assistant", text)
}

const onsets, vowels = "bdfgklmnprstvz", "aeiou"

// babble is words that mean nothing, in lines.
func babble(rng *rand.Rand, size int) string {
	var b strings.Builder
	b.Grow(size + 16)
	for line := 0; b.Len() < size; {
		for range 1 + rng.IntN(3) {
			b.WriteByte(onsets[rng.IntN(len(onsets))])
			b.WriteByte(vowels[rng.IntN(len(vowels))])
		}
		if line++; line%12 == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()[:size]
}
