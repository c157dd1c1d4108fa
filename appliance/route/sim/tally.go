package sim

import "slices"

// Result is what a policy made of a fleet. Shares are 0 to 1; times are s.
type Result struct {
	Policy       Policy  `json:"policy"`
	Load         float64 `json:"load"`
	TurnsPerHour float64 `json:"turns_per_hour"`
	TTFTMean     float64 `json:"ttft_mean_s"` // from the first try to the first token, refusals included
	TTFTP50      float64 `json:"ttft_p50_s"`
	TTFTP95      float64 `json:"ttft_p95_s"`
	TTFTP99      float64 `json:"ttft_p99_s"`
	Hit80        float64 `json:"hit80"`      // turns that reused at least 80 % of the context they had
	MovedNode    float64 `json:"moved_node"` // turns on another node than the one before
	Warm         float64 `json:"warm"`       // of those, which reused at least 90 % of the prompt
	Partly       float64 `json:"partly"`     // 30 to 90 %
	Cold         float64 `json:"cold"`       // less
	Rejected     float64 `json:"rejected"`   // of all tries
	Wasted       float64 `json:"wasted_tokens_per_turn"`
}

// tally counts what happens once the fleet has warmed up.
type tally struct {
	w *world

	tries, refusals, turns int
	ttft                   []float64

	ordinary, hits, moved, warm, partly, cold int
	wasted                                    float64
}

func (t *tally) counts() bool { return t.w.now >= warmUp }

func (t *tally) submitted() {
	if t.counts() {
		t.tries++
	}
}

func (t *tally) refused() {
	if t.counts() {
		t.refusals++
	}
}

func (t *tally) done() {
	if t.counts() {
		t.turns++
	}
}

func (t *tally) spoke(turn *turn, at float64) {
	if t.counts() {
		t.ttft = append(t.ttft, at-turn.since)
	}
}

// placed notes where a turn went and how much of it was there. First turns and those of a rewritten history are left
// out: nothing that a policy does could have helped them.
func (t *tally) placed(turn *turn, e *engine, reused int) {
	if !t.counts() || turn.kind != Ordinary {
		return
	}
	t.ordinary++
	if float64(reused) >= 0.8*float64(turn.had) {
		t.hits++
	}
	t.wasted += float64(max(0, turn.had-reused))
	if turn.session.node == e.node.nr {
		return
	}
	t.moved++
	switch share := float64(reused) / float64(turn.prompt); {
	case share >= 0.9:
		t.warm++
	case share >= 0.3:
		t.partly++
	default:
		t.cold++
	}
}

func (t *tally) result() Result {
	slices.Sort(t.ttft)
	mean := 0.0
	for _, v := range t.ttft {
		mean += v
	}
	share := func(n, of int) float64 { return float64(n) / float64(max(1, of)) }
	return Result{
		Policy: t.w.cfg.Policy, Load: t.w.cfg.Load, TurnsPerHour: float64(t.turns) / t.w.cfg.Hours,
		TTFTMean: mean / float64(max(1, len(t.ttft))), TTFTP50: quantile(t.ttft, 0.5), TTFTP95: quantile(t.ttft, 0.95), TTFTP99: quantile(t.ttft, 0.99),
		Hit80: share(t.hits, t.ordinary), MovedNode: share(t.moved, t.ordinary),
		Warm: share(t.warm, t.moved), Partly: share(t.partly, t.moved), Cold: share(t.cold, t.moved),
		Rejected: share(t.refusals, t.tries), Wasted: t.wasted / float64(max(1, t.ordinary)),
	}
}

// quantile of sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
