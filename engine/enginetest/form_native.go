package enginetest

// nativeForm is /completion, llama-server's own.
type nativeForm struct{}

// infillForm is /infill: the same answer to a prompt made of what stands before and after a gap.
type infillForm struct{ nativeForm }

func (nativeForm) read(f *fields, o Options) (*request, error) { return textForm{}.read(f, o) }

func (infillForm) read(f *fields, o Options) (*request, error) {
	for _, name := range []string{"input_suffix", "input_prefix"} {
		switch v := f.m[name].(type) {
		case string:
		case nil:
			return nil, badRequest("[json.exception.out_of_range.403] key '%s' not found", name)
		default:
			return nil, badRequest("[json.exception.type_error.302] type must be string, but is %s", jsonKind(v))
		}
	}
	r, err := f.common(o)
	if err != nil {
		return nil, err
	}
	prefix := appendTokens(nil, f.text("input_prefix"))
	suffix := appendTokens(nil, f.text("input_suffix"))
	prompt := appendTokens(nil, f.text("prompt"))
	// A gap's surroundings are cut to what fits a batch, three quarters of it for what stands before.
	prefix = prefix[max(0, len(prefix)-max(0, 3*(o.Batch/4)-3)):]
	suffix = suffix[:min(len(suffix), max(0, o.Batch/4-2-len(prompt)))]
	b := append([]byte{mark(tokenFIMPrefix)}, prefix...)
	b = append(append(b, mark(tokenFIMSuffix)), suffix...)
	b = append(append(b, mark(tokenFIMMiddle)), prompt...)
	r.prompts = [][]byte{b}
	return r, nil
}

type nativeChunk struct {
	Index     int             `json:"index"`
	Content   string          `json:"content"`
	Tokens    []int           `json:"tokens"`
	Stop      bool            `json:"stop"`
	Slot      int             `json:"id_slot"`
	Predicted int             `json:"tokens_predicted"`
	Evaluated int             `json:"tokens_evaluated"`
	Progress  *promptProgress `json:"prompt_progress,omitempty"`
	Timings   *timings        `json:"timings,omitempty"`
}

type nativeEnd struct {
	Index     int     `json:"index"`
	Content   string  `json:"content"`
	Tokens    []int   `json:"tokens"`
	Slot      int     `json:"id_slot"`
	Stop      bool    `json:"stop"`
	Model     string  `json:"model"`
	Predicted int     `json:"tokens_predicted"`
	Evaluated int     `json:"tokens_evaluated"`
	Settings  object  `json:"generation_settings"`
	Prompt    string  `json:"prompt"`
	NewLine   bool    `json:"has_new_line"`
	Truncated bool    `json:"truncated"`
	StopType  string  `json:"stop_type"`
	Word      string  `json:"stopping_word"`
	Cached    int     `json:"tokens_cached"`
	Timings   timings `json:"timings"`
}

func (nativeForm) progress(b []byte, g *generation, _ *chunk, _ bool) []byte {
	p := g.promptProgress()
	return appendEvent(b, "", nativeChunk{Index: g.index, Tokens: []int{0}, Slot: -1, Evaluated: len(g.prompt), Progress: &p})
}

func (nativeForm) opening(b []byte, _ *generation, _ *chunk, _ bool) []byte { return b }

func (nativeForm) token(b []byte, g *generation, _ *chunk, text string) []byte {
	v := nativeChunk{Index: g.index, Content: text, Tokens: tokenIDs(text), Slot: -1, Predicted: len(g.text), Evaluated: len(g.prompt)}
	if g.req.timingsPerToken {
		t := g.timings()
		v.Timings = &t
	}
	return appendEvent(b, "", v)
}

func tokenIDs(text string) []int {
	ids := make([]int, len(text))
	for i := range len(text) {
		ids[i] = tokenID(text[i])
	}
	return ids
}

func (f nativeForm) closing(b []byte, g *generation, c *chunk) []byte {
	end := f.end(g, c)
	end.Content, end.Tokens = "", []int{}
	return appendEvent(b, "", end)
}

func (nativeForm) end(g *generation, c *chunk) nativeEnd {
	e := nativeEnd{Index: g.index, Content: g.answerText(), Tokens: []int{}, Slot: g.slot.id, Stop: true, Model: c.model,
		Predicted: len(g.text), Evaluated: len(g.prompt), Settings: settings(taskParams{g.req.max, g.req.max, g.req.stream}),
		Prompt: detokenize(g.prompt), Truncated: g.limited, Word: g.word, Timings: g.timings(),
		Cached: len(g.prompt) + max(len(g.text)-1, 0)}
	if g.req.returnTokens {
		e.Tokens = tokenIDs(string(g.text))
	}
	switch {
	case g.word != "":
		e.StopType = "word"
	case g.finish == "stop":
		e.StopType = "eos"
	case g.finish == "length":
		e.StopType = "limit"
	default:
		e.StopType = "none"
	}
	return e
}

func (nativeForm) failure(b []byte, e apiError) []byte { return plainFailure(b, e) }

func (f nativeForm) whole(a *answer) any {
	if !a.req.list {
		return f.end(a.gens[0], &a.chunk)
	}
	var list []nativeEnd
	for _, g := range a.gens {
		list = append(list, f.end(g, &a.chunk))
	}
	return list
}
