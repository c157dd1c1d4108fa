package enginetest

// messagesForm is /v1/messages, the Anthropic API.
type messagesForm struct{}

type anthropicUsage struct {
	Cached int `json:"cache_read_input_tokens"`
	Input  int `json:"input_tokens"` // those not cached
	Output int `json:"output_tokens"`
}

type anthropicMessage struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Content      []any          `json:"content"`
	Model        string         `json:"model"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"`
	Usage        anthropicUsage `json:"usage"`
}

func (messagesForm) read(f *fields, o Options) (*request, error) {
	messages, err := parseMessages(f.m["messages"], "messages")
	if err != nil {
		e := asAPIError(err)
		// The engine turns this body into its own form before it looks, and reports a fault there as its own.
		e.Code, e.Type = 500, "server_error"
		return nil, e
	}
	if system := contentText(f.m["system"]); system != "" {
		messages = append([]message{{"system", system}}, messages...)
	}
	r, err := f.common(o)
	if err != nil {
		return nil, err
	}
	r.prompts = [][]byte{renderChat(messages)}
	return r, nil
}

func (messagesForm) message(g *generation, c *chunk) anthropicMessage {
	return anthropicMessage{ID: c.id, Type: "message", Role: "assistant", Content: []any{}, Model: c.model,
		Usage: anthropicUsage{g.cached, len(g.prompt) - g.cached, len(g.text)}}
}

func (f messagesForm) start(b []byte, g *generation, c *chunk) []byte {
	m := f.message(g, c)
	m.Usage.Output = 0
	return appendEvent(b, "message_start", struct {
		Type    string           `json:"type"`
		Message anthropicMessage `json:"message"`
	}{"message_start", m})
}

// progress sends the message's start as soon as the cache hit is known, and nothing after it.
func (f messagesForm) progress(b []byte, g *generation, c *chunk, first bool) []byte {
	if !first {
		return b
	}
	return f.start(b, g, c)
}

func (f messagesForm) opening(b []byte, g *generation, c *chunk, progressed bool) []byte {
	if !progressed {
		b = f.start(b, g, c)
	}
	return append(b, "event: content_block_start\n"+
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`+"\n\n"...)
}

func (messagesForm) token(b []byte, _ *generation, _ *chunk, text string) []byte {
	b = append(b, "event: content_block_delta\n"+
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`...)
	b = appendQuoted(b, text)
	return append(b, "}}\n\n"...)
}

func (f messagesForm) closing(b []byte, g *generation, _ *chunk) []byte {
	reason, word := f.stopReason(g)
	b = append(b, "event: content_block_stop\n"+`data: {"type":"content_block_stop","index":0}`+"\n\n"...)
	b = appendEvent(b, "message_delta", struct {
		Type  string `json:"type"`
		Delta any    `json:"delta"`
		Usage any    `json:"usage"`
	}{"message_delta", struct {
		Reason *string `json:"stop_reason"`
		Word   *string `json:"stop_sequence"`
	}{reason, word}, map[string]int{"output_tokens": len(g.text)}})
	return append(b, "event: message_stop\n"+`data: {"type":"message_stop"}`+"\n\n"...)
}

// stopReason says end_turn for a stop text too, where Anthropic's API says stop_sequence: measured.
func (messagesForm) stopReason(g *generation) (reason, word *string) {
	r := "max_tokens"
	if g.finish == "stop" {
		r = "end_turn"
	}
	if g.word != "" {
		word = &g.word
	}
	return &r, word
}

// failure has no envelope around the error: measured, and not what Anthropic's API sends.
func (messagesForm) failure(b []byte, e apiError) []byte { return appendEvent(b, "error", e) }

func (f messagesForm) whole(a *answer) any {
	g := a.gens[0]
	m := f.message(g, &a.chunk)
	m.StopReason, m.StopSequence = f.stopReason(g)
	m.Content = append(m.Content, struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", g.answerText()})
	return m
}
