package gateway

import (
	"encoding/json"

	"viiwork/appliance/status"
)

// tally is what an engine itself says about the work a request was. Negative figures are not known yet.
type tally struct {
	prompt, cached, output int
	left                   int     // of the prompt, to be computed
	prefill, decode        float64 // tokens per second

	counted int // output tokens added up over finished choices
	usages  int // final usage reports seen
}

func newTally() tally { return tally{prompt: -1, cached: -1, output: -1, prefill: -1, decode: -1} }

// report holds the figures of one event or answer, in the words of all APIs.
type report struct {
	Usage    *usage   `json:"usage"`
	Timings  *timings `json:"timings"`
	Progress *struct {
		Total     int `json:"total"`
		Cache     int `json:"cache"`
		Processed int `json:"processed"`
	} `json:"prompt_progress"`
	Message *struct {
		Usage *usage `json:"usage"`
	} `json:"message"`
	Response *struct {
		Usage *usage `json:"usage"`
	} `json:"response"`
}

type usage struct {
	PromptTokens     *int `json:"prompt_tokens"`
	CompletionTokens *int `json:"completion_tokens"`
	PromptDetails    *struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	InputTokens  *int `json:"input_tokens"`
	OutputTokens *int `json:"output_tokens"`
	InputDetails *struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	CacheRead *int `json:"cache_read_input_tokens"` // Anthropic: not part of input_tokens
}

type timings struct {
	CacheN           *int     `json:"cache_n"`
	PromptN          *int     `json:"prompt_n"`
	PredictedN       *int     `json:"predicted_n"`
	PromptPerSecond  *float64 `json:"prompt_per_second"`
	PredictedPerSecs *float64 `json:"predicted_per_second"`
}

// read takes the figures out of a JSON text. final says that they are an answer's last ones, not running ones.
func (t *tally) read(data []byte, final bool) {
	var r report
	if json.Unmarshal(data, &r) != nil {
		return
	}
	if r.Progress != nil {
		t.prompt, t.cached, t.left = r.Progress.Total, r.Progress.Cache, r.Progress.Total-r.Progress.Processed
	}
	if r.Timings != nil {
		t.timings(r.Timings, final && r.Usage == nil)
	}
	for _, u := range []*usage{r.Usage, within(r.Message), within(r.Response)} {
		if u != nil {
			t.usage(u)
		}
	}
}

func within(m *struct {
	Usage *usage `json:"usage"`
}) *usage {
	if m == nil {
		return nil
	}
	return m.Usage
}

// timings are each choice's own. Several choices share a prompt; their outputs add up.
func (t *tally) timings(tm *timings, final bool) {
	if tm.CacheN != nil && tm.PromptN != nil {
		t.cached, t.prompt = *tm.CacheN, *tm.CacheN+*tm.PromptN
	}
	if tm.PredictedN != nil && t.usages == 0 {
		t.output = t.counted + *tm.PredictedN
		if final {
			t.counted = t.output
		}
	}
	setRate(&t.prefill, tm.PromptPerSecond)
	setRate(&t.decode, tm.PredictedPerSecs)
}

func setRate(to *float64, v *float64) {
	if v != nil && *v > 0 {
		*to = *v
	}
}

func (t *tally) usage(u *usage) {
	if u.CacheRead != nil && u.InputTokens != nil {
		t.cached, t.prompt = *u.CacheRead, *u.CacheRead+*u.InputTokens
	} else {
		setCount(&t.prompt, u.PromptTokens)
		setCount(&t.prompt, u.InputTokens)
	}
	if u.PromptDetails != nil {
		setCount(&t.cached, u.PromptDetails.CachedTokens)
	}
	if u.InputDetails != nil {
		setCount(&t.cached, u.InputDetails.CachedTokens)
	}
	setCount(&t.output, u.OutputTokens)
	if u.CompletionTokens != nil { // one report for each choice
		if t.usages == 0 {
			t.output = 0
		}
		t.usages++
		t.output += *u.CompletionTokens
	}
}

func setCount(to *int, v *int) {
	if v != nil && *v >= 0 {
		*to = *v
	}
}

// into copies what is known into a row.
func (t *tally) into(r *status.Request) {
	for _, c := range []struct {
		to **int
		v  int
	}{{&r.PromptTokens, t.prompt}, {&r.CachedTokens, t.cached}, {&r.OutputTokens, t.output}} {
		if c.v >= 0 {
			*c.to = &c.v
		}
	}
	if t.prefill > 0 {
		v := t.prefill
		r.PrefillTPS = &v
	}
	if t.decode > 0 {
		v := t.decode
		r.DecodeTPS = &v
	}
}
