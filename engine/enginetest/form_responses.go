package enginetest

import "strings"

// responsesForm is /v1/responses.
type responsesForm struct{}

func (responsesForm) read(f *fields, o Options) (*request, error) {
	var messages []message
	if text, ok := f.m["input"].(string); ok {
		messages = []message{{"user", text}}
	} else {
		var err error
		if messages, err = parseMessages(f.m["input"], "input"); err != nil {
			return nil, err
		}
	}
	if text := f.text("instructions"); text != "" {
		messages = append([]message{{"system", text}}, messages...)
	}
	if v, ok := f.m["max_output_tokens"]; ok {
		f.m["max_tokens"] = v
	}
	r, err := f.common(o)
	if err != nil {
		return nil, err
	}
	r.prompts = [][]byte{renderChat(messages)}
	return r, nil
}

func (c *chunk) responseID() string { return strings.Replace(c.id, "chatcmpl-", "resp_", 1) }

type object = map[string]any

func (responsesForm) event(b []byte, name string, rest object) []byte {
	rest["type"] = name
	return appendEvent(b, name, rest)
}

func (responsesForm) stub(c *chunk) object {
	return object{"id": c.responseID(), "object": "response", "status": "in_progress"}
}

func (f responsesForm) progress(b []byte, g *generation, c *chunk, first bool) []byte {
	if first {
		b = f.event(b, "response.created", object{"response": f.stub(c)})
	}
	return f.event(b, "response.in_progress", object{"response": f.stub(c), "prompt_progress": g.promptProgress()})
}

func (f responsesForm) opening(b []byte, _ *generation, c *chunk, progressed bool) []byte {
	if !progressed {
		b = f.event(b, "response.created", object{"response": f.stub(c)})
		b = f.event(b, "response.in_progress", object{"response": f.stub(c)})
	}
	b = f.event(b, "response.output_item.added", object{"item": object{"content": []any{}, "id": c.item,
		"role": "assistant", "status": "in_progress", "type": "message"}})
	return f.event(b, "response.content_part.added", object{"item_id": c.item, "part": object{"type": "output_text", "text": ""}})
}

func (f responsesForm) token(b []byte, g *generation, c *chunk, text string) []byte {
	if g.req.timingsPerToken {
		return f.event(b, "response.output_text.delta", object{"item_id": c.item, "delta": text, "timings": g.timings()})
	}
	b = append(b, "event: response.output_text.delta\n"+`data: {"type":"response.output_text.delta","item_id":`...)
	b = appendQuoted(b, c.item)
	b = append(b, `,"delta":`...)
	b = appendQuoted(b, text)
	return append(b, "}\n\n"...)
}

func (responsesForm) part(g *generation) object {
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": g.answerText()}
}

func (f responsesForm) item(g *generation, c *chunk) object {
	return object{"type": "message", "status": "completed", "id": c.item, "content": []any{f.part(g)}, "role": "assistant"}
}

func (responsesForm) usage(g *generation) object {
	return object{"input_tokens": len(g.prompt), "output_tokens": len(g.text), "total_tokens": len(g.prompt) + len(g.text),
		"input_tokens_details": cachedDetails{g.cached}}
}

func (f responsesForm) closing(b []byte, g *generation, c *chunk) []byte {
	b = f.event(b, "response.output_text.done", object{"item_id": c.item, "text": g.answerText()})
	b = f.event(b, "response.content_part.done", object{"item_id": c.item, "part": f.part(g)})
	b = f.event(b, "response.output_item.done", object{"item": f.item(g, c)})
	return f.event(b, "response.completed", object{"timings": g.timings(), "response": object{"id": c.responseID(),
		"object": "response", "created_at": c.created, "status": "completed", "model": c.model,
		"output": []any{f.item(g, c)}, "usage": f.usage(g)}})
}

func (responsesForm) failure(b []byte, e apiError) []byte { return plainFailure(b, e) }

func (f responsesForm) whole(a *answer) any {
	g := a.gens[0]
	return object{"completed_at": a.created, "created_at": a.created, "id": a.responseID(), "model": a.model,
		"object": "response", "output": []any{f.item(g, &a.chunk)}, "status": "completed", "usage": f.usage(g)}
}
