package gateway

import (
	"sync"
	"time"

	"viiwork/appliance/mesh"
)

// Bounds of what is believed of one answer, and what a new one counts for.
const (
	leastRate, mostRate = 0.1, 1e7 // tokens a second
	leastPrefill        = 64       // tokens: in a shorter prompt the start weighs more than the work
	leastOutput         = 8
	mostTokens          = 1 << 24
	leastScore          = 1e-7 // seconds a prompt token
	mostScore           = 1e3
	// mostThink is the longest pause after which a conversation still counts as going on.
	mostThink = 300 * time.Second

	rateShare   = 0.2
	scoreShare  = 0.1 // as viiwork 2.11 had it
	outputShare = 0.05
	thinkShare  = 0.05

	mostStreams = 8 // told apart at one backend
)

// sizes of prompts are measured apart.
const sizes = 4

// prefillSizes are where they begin: a prompt belongs to the last one that is not over its number of tokens to compute.
var prefillSizes = [sizes]int{leastPrefill, 512, 4096, 16384}

// backendRates is what one engine has shown to be able to.
type backendRates struct {
	Cards   string            `json:"cards"` // that it was measured on
	Prefill [sizes]ewma       `json:"prefill"`
	Decode  [mostStreams]ewma `json:"decode"` // by how many streams it generated at one time
}

// modelRates is what this node has seen of one model.
type modelRates struct {
	Digest   string                   `json:"digest"` // of the file that was measured
	Score    ewma                     `json:"score"`  // seconds from start to first token, per prompt token
	Output   ewma                     `json:"output"` // tokens of an answer
	Think    ewma                     `json:"think"`  // seconds from an answer to the conversation's next request
	Backends map[string]*backendRates `json:"backends"`

	scale tokenScale // learnt anew in each run: a few answers do
}

// work is one answer in figures; negative ones are not known.
type work struct {
	prompt, cached, output int
	prefill, decode        float64       // tokens a second
	streams                float64       // generated beside it and with it, in the mean
	first                  time.Duration // from its start on this node to its first token
}

// rates measures what the engines of this node can do by what they say of each answer.
type rates struct {
	digest func(model string) string // nil = unknown

	mu     sync.Mutex
	models map[string]*modelRates
	dirty  bool
}

// of wants the lock held. What was measured on another file is forgotten.
func (r *rates) of(model string) *modelRates {
	digest := ""
	if r.digest != nil {
		digest = r.digest(model)
	}
	m := r.models[model]
	if m == nil || m.Digest != digest && m.Digest != "" && digest != "" {
		if m == nil && len(r.models) >= maxRatedModels {
			return &modelRates{Backends: map[string]*backendRates{}} // kept by nobody
		}
		m = &modelRates{Backends: map[string]*backendRates{}}
		r.models[model] = m
	}
	if digest != "" {
		m.Digest = digest
	}
	return m
}

// backend wants the lock held. What was measured on other cards is forgotten; "" = they are not known.
func (r *rates) backend(model, id, cards string) *backendRates {
	m := r.of(model)
	b := m.Backends[id]
	if b == nil || b.Cards != cards && b.Cards != "" && cards != "" {
		if b == nil && len(m.Backends) >= maxRatedBackends {
			return &backendRates{} // kept by nobody
		}
		b = &backendRates{}
		m.Backends[id] = b
	}
	if cards != "" {
		b.Cards = cards
	}
	return b
}

// answered learns from one answer.
func (r *rates) answered(model, backend string, w work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, b := r.of(model), r.backend(model, backend, "")
	r.dirty = true
	if computed := w.prompt - max(0, w.cached); w.prompt >= 0 && w.cached >= 0 && computed >= leastPrefill && computed <= mostTokens {
		b.Prefill[sizeOf(computed)].add(w.prefill, rateShare, leastRate, mostRate)
	}
	if w.output >= leastOutput && w.output <= mostTokens {
		at := min(max(int(w.streams+0.5), 1), mostStreams) - 1
		b.Decode[at].add(w.decode, rateShare, leastRate, mostRate)
	}
	if w.prompt > 0 && w.prompt <= mostTokens && w.first > 0 {
		m.Score.add(w.first.Seconds()/float64(w.prompt), scoreShare, leastScore, mostScore)
	}
	m.Output.add(float64(w.output), outputShare, 1, mostTokens)
}

// thought learns how long a conversation took to come again.
func (r *rates) thought(model string, pause time.Duration) {
	if pause <= 0 || pause > mostThink {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(model).Think.add(pause.Seconds(), thinkShare, 0.01, mostThink.Seconds())
	r.dirty = true
}

func sizeOf(tokens int) int {
	at := 0
	for at+1 < len(prefillSizes) && tokens >= prefillSizes[at+1] {
		at++
	}
	return at
}

// prefill is the rate over all sizes, the larger ones counting for more as their work does; 0 = unknown.
func (b *backendRates) prefill() float64 {
	tokens, seconds := 0.0, 0.0
	for i, m := range b.Prefill {
		if m.Values > 0 {
			n := float64(min(m.Values, 20)) * float64(prefillSizes[i])
			tokens, seconds = tokens+n, seconds+n/m.Mean
		}
	}
	if seconds == 0 {
		return 0
	}
	return tokens / seconds
}

// decode is the rate of a single stream, and by what share a token takes longer for each further stream: the line that lies
// nearest to what was measured. 0 = unknown.
func (b *backendRates) decode() (single, slowdown float64) {
	var n, x, y, xx, xy float64
	known, only := 0, 0
	for i, m := range b.Decode {
		if m.Values == 0 {
			continue
		}
		known, only = known+1, i
		w, at, took := float64(min(m.Values, 20)), float64(i), 1/m.Mean
		n, x, y, xx, xy = n+w, x+w*at, y+w*took, xx+w*at*at, xy+w*at*took
	}
	switch known {
	case 0:
		return 0, 0
	case 1:
		return b.Decode[only].Mean * (1 + guessedSlowdown*float64(only)), 0
	}
	slope := max(0, (n*xy-x*y)/(n*xx-x*x))
	took := (y - slope*x) / n
	if took <= 0 { // no straight line: the fewest streams that were measured tell most
		for i, m := range b.Decode {
			if m.Values > 0 {
				return m.Mean * (1 + guessedSlowdown*float64(i)), 0
			}
		}
	}
	return 1 / took, min(max(slope/took, leastSlowdown), mostSlowdown)
}

const (
	guessedSlowdown = 0.2
	leastSlowdown   = 0.001 // 0 would be unknown
	mostSlowdown    = 4
)

// tell puts what is known of a model into its report. cards names what each of its backends runs on.
func (r *rates) tell(to *mesh.Model, cards []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.of(to.Name)
	to.Score, to.Output, to.ThinkMS = round2(m.Score.Mean), round2(m.Output.Mean), int64(round2(m.Think.Mean*1000))
	for i := range to.Backends {
		b := r.backend(to.Name, to.Backends[i].ID, cards[i])
		to.Backends[i].PrefillTPS = known(b.prefill())
		single, slowdown := b.decode()
		to.Backends[i].DecodeTPS, to.Backends[i].Slowdown = known(single), round2(slowdown)
	}
}

func known(rate float64) *float64 {
	if rate = round2(rate); rate > 0 {
		return &rate
	}
	return nil
}
