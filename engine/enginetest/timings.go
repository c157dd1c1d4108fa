package enginetest

import (
	"crypto/rand"
	"time"
)

// timings is what every answer tells about its work.
type timings struct {
	CacheN            int     `json:"cache_n"`
	PromptN           int     `json:"prompt_n"`
	PromptMS          float64 `json:"prompt_ms"`
	PromptPerToken    float64 `json:"prompt_per_token_ms"`
	PromptPerSecond   float64 `json:"prompt_per_second"`
	PredictedN        int     `json:"predicted_n"`
	PredictedMS       float64 `json:"predicted_ms"`
	PredictedPerToken float64 `json:"predicted_per_token_ms"`
	PredictedPerSec   float64 `json:"predicted_per_second"`
}

func (g *generation) timings() timings {
	t := timings{CacheN: g.cached, PromptN: len(g.prompt) - g.cached, PredictedN: len(g.text)}
	ms := func(d time.Duration) float64 {
		return float64((time.Duration(float64(d) * g.srv.o.Speed)).Microseconds()) / 1000
	}
	t.PromptMS, t.PredictedMS = ms(g.prefilled.Sub(g.began)), max(ms(g.now.Sub(g.prefilled)), 0.001)
	rates := func(n int, ms float64) (perToken, perSecond float64) {
		if n <= 0 || ms <= 0 {
			return 0, 0
		}
		return ms / float64(n), float64(n) / ms * 1000
	}
	t.PromptPerToken, t.PromptPerSecond = rates(t.PromptN, t.PromptMS)
	t.PredictedPerToken, t.PredictedPerSec = rates(t.PredictedN-1, t.PredictedMS)
	return t
}

// promptProgress is what return_progress adds to a chunk.
type promptProgress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	TimeMS    int64 `json:"time_ms"`
}

func (g *generation) promptProgress() promptProgress {
	spent := time.Duration(float64(g.now.Sub(g.began)) * g.srv.o.Speed)
	return promptProgress{len(g.prompt), g.cached, g.done, spent.Milliseconds()}
}

func newID(prefix string) string { return prefix + rand.Text() }
