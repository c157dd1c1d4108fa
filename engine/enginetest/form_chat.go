package enginetest

// The openAI chunk's parts, in the order the engine writes them.
type chatChunk struct {
	Choices     []chatChoice    `json:"choices"`
	Created     int64           `json:"created"`
	ID          string          `json:"id"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"`
	Object      string          `json:"object"`
	Usage       *usage          `json:"usage,omitempty"`
	Progress    *promptProgress `json:"prompt_progress,omitempty"`
	Timings     *timings        `json:"timings,omitempty"`
}

type chatChoice struct {
	Finish  *string        `json:"finish_reason"`
	Index   int            `json:"index"`
	Delta   map[string]any `json:"delta,omitempty"`
	Message map[string]any `json:"message,omitempty"`
}

type usage struct {
	Completion int           `json:"completion_tokens"`
	Prompt     int           `json:"prompt_tokens"`
	Total      int           `json:"total_tokens"`
	Details    cachedDetails `json:"prompt_tokens_details"`
}

type cachedDetails struct {
	Cached int `json:"cached_tokens"`
}

func (g *generation) usage() *usage {
	return &usage{len(g.text), len(g.prompt), len(g.text) + len(g.prompt), cachedDetails{g.cached}}
}

// chatForm is /v1/chat/completions.
type chatForm struct{}

func (chatForm) read(f *fields, o Options) (*request, error) {
	messages, err := parseMessages(f.m["messages"], "messages")
	if err != nil {
		return nil, err
	}
	r, err := f.common(o)
	if err != nil {
		return nil, err
	}
	r.prompts = [][]byte{renderChat(messages)}
	f.repeat(r)
	return r, nil
}

func (chatForm) base(c *chunk) chatChunk {
	return chatChunk{Choices: []chatChoice{}, Created: c.created, ID: c.id, Model: c.model, Fingerprint: build, Object: "chat.completion.chunk"}
}

func (f chatForm) role(g *generation, c *chunk) chatChunk {
	v := f.base(c)
	v.Choices = append(v.Choices, chatChoice{Index: g.index, Delta: map[string]any{"role": "assistant", "content": nil}})
	return v
}

func (f chatForm) progress(b []byte, g *generation, c *chunk, _ bool) []byte {
	v, p := f.role(g, c), g.promptProgress()
	v.Progress = &p
	return appendEvent(b, "", v)
}

func (f chatForm) opening(b []byte, g *generation, c *chunk, _ bool) []byte {
	return appendEvent(b, "", f.role(g, c))
}

// token is written by hand: it is what a stream mostly consists of.
func (f chatForm) token(b []byte, g *generation, c *chunk, text string) []byte {
	if g.req.timingsPerToken {
		v, t := f.base(c), g.timings()
		v.Timings = &t
		v.Choices = append(v.Choices, chatChoice{Index: g.index, Delta: map[string]any{"content": text}})
		return appendEvent(b, "", v)
	}
	if c.tail == "" {
		v := f.base(c)
		all := encode(v)
		c.tail = string(all[len(`{"choices":[]`):]) + "\n\n"
	}
	b = append(b, `data: {"choices":[{"finish_reason":null,"index":`...)
	b = appendInt(b, g.index)
	b = append(b, `,"delta":{"content":`...)
	b = appendQuoted(b, text)
	b = append(b, `}}]`...)
	return append(b, c.tail...)
}

func (f chatForm) closing(b []byte, g *generation, c *chunk) []byte {
	v, t := f.base(c), g.timings()
	end := emptyDelta{chatChunk: v, Choices: []finishChoice{{Finish: g.finish, Index: g.index}}}
	if !g.req.usage {
		end.Timings = &t
		return appendEvent(b, "", end)
	}
	b = appendEvent(b, "", end)
	v = f.base(c)
	v.Usage, v.Timings = g.usage(), &t
	return appendEvent(b, "", v)
}

// emptyDelta is a chunk whose delta is there but empty.
type emptyDelta struct {
	Choices []finishChoice `json:"choices"`
	chatChunk
}

type finishChoice struct {
	Finish string   `json:"finish_reason"`
	Index  int      `json:"index"`
	Delta  struct{} `json:"delta"`
}

func (chatForm) failure(b []byte, e apiError) []byte { return plainFailure(b, e) }

func (f chatForm) whole(a *answer) any {
	v, t := f.base(&a.chunk), a.gens[0].timings()
	v.Object, v.Usage, v.Timings = "chat.completion", a.gens[0].usage(), &t
	for _, g := range a.gens {
		v.Choices = append(v.Choices, chatChoice{Index: g.index, Finish: &g.finish,
			Message: map[string]any{"role": "assistant", "content": g.answerText()}})
	}
	return v
}
