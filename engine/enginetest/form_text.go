package enginetest

import "strconv"

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// textForm is /v1/completions.
type textForm struct{}

type textChunk struct {
	Choices     []textChoice    `json:"choices"`
	Created     int64           `json:"created"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"`
	Object      string          `json:"object"`
	Usage       *usage          `json:"usage,omitempty"`
	ID          string          `json:"id"`
	Progress    *promptProgress `json:"prompt_progress,omitempty"`
	Timings     *timings        `json:"timings,omitempty"`
}

type textChoice struct {
	Text     string  `json:"text"`
	Index    int     `json:"index"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

func (textForm) read(f *fields, o Options) (*request, error) {
	r, err := f.common(o)
	if err != nil {
		return nil, err
	}
	if err := f.promptField(r); err != nil {
		return nil, err
	}
	if len(r.prompts) == 1 {
		f.repeat(r)
	}
	return r, nil
}

func (textForm) base(g *generation, c *chunk, text string) textChunk {
	return textChunk{Choices: []textChoice{{Text: text, Index: g.index}}, Created: c.created, Model: c.model,
		Fingerprint: build, Object: "text_completion", ID: c.id}
}

func (f textForm) progress(b []byte, g *generation, c *chunk, _ bool) []byte {
	v, p := f.base(g, c, ""), g.promptProgress()
	v.Progress = &p
	return appendEvent(b, "", v)
}

func (textForm) opening(b []byte, _ *generation, _ *chunk, _ bool) []byte { return b }

func (f textForm) token(b []byte, g *generation, c *chunk, text string) []byte {
	v := f.base(g, c, text)
	if g.req.timingsPerToken {
		t := g.timings()
		v.Timings = &t
	}
	return appendEvent(b, "", v)
}

func (f textForm) closing(b []byte, g *generation, c *chunk) []byte {
	v, t := f.base(g, c, ""), g.timings()
	v.Choices[0].Finish = &g.finish
	v.Usage, v.Timings = g.usage(), &t
	return appendEvent(b, "", v)
}

func (textForm) failure(b []byte, e apiError) []byte { return plainFailure(b, e) }

func (f textForm) whole(a *answer) any {
	v, t := f.base(a.gens[0], &a.chunk, ""), a.gens[0].timings()
	v.Usage, v.Timings, v.Choices = a.gens[0].usage(), &t, nil
	for _, g := range a.gens {
		v.Choices = append(v.Choices, textChoice{Text: g.answerText(), Index: g.index, Finish: &g.finish})
	}
	return v
}

// answerText is all text of a generation, without the stop text that ended it.
func (g *generation) answerText() string { return string(g.text[:g.sent]) }
