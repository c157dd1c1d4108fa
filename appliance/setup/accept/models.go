package accept

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// message asks for a short answer.
func message(model, text string) map[string]any {
	return map[string]any{
		"model": model, "max_tokens": 32, "temperature": 0,
		"messages": []map[string]string{{"role": "user", "content": text}},
	}
}

const completions = "/v1/chat/completions"

// pinned is the path of a request that only this node may run.
func (r *run) pinned(rest string) string { return rest + "?host=" + url.QueryEscape(r.cfg.Node) }

// content wants a real answer of this very node.
func (r *run) content(ctx context.Context, m Model) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	rest, body := completions, any(message(m.Name, "Say the word ready."))
	switch m.kind() {
	case Embedding:
		rest, body = "/v1/embeddings", map[string]any{"model": m.Name, "input": "ready"}
	case Rerank:
		rest, body = "/v1/rerank", map[string]any{"model": m.Name, "query": "ready", "documents": []string{"ready", "not yet"}}
	}
	begun := time.Now()
	a, err := r.send(ctx, http.MethodPost, r.pinned(rest), body)
	switch {
	case err != nil:
		return Fail, err.Error()
	case a.status != http.StatusOK:
		return Fail, a.fault()
	case a.header.Get("X-Viiwork-Node") != r.cfg.Node:
		return Fail, fmt.Sprintf("%s answered instead of this node", a.header.Get("X-Viiwork-Node"))
	case m.kind() == Chat && len(a.text()) == 0:
		return Fail, "the answer has no text"
	}
	r.took[m.Name] = time.Since(begun)
	return Pass, fmt.Sprintf("%s answered on %s", a.header.Get("X-Viiwork-Model"), a.header.Get("X-Viiwork-Backend"))
}

// completion is what is read of an answer.
type completion struct {
	Choices []struct {
		Finish  string `json:"finish_reason"`
		Message struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
			Calls     []any  `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

func (a answer) completion() (c completion) {
	_ = json.Unmarshal(a.body, &c) // what is no answer has no choices
	return c
}

// text is what the model said, or thought.
func (a answer) text() string {
	text := ""
	for _, c := range a.completion().Choices {
		text += c.Message.Content + c.Message.Reasoning
	}
	return text
}

// tools wants the model to call one. A model that calls it only when it must is told apart.
func (r *run) tools(ctx context.Context, m Model) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	body := message(m.Name, "What is the weather in Paris now? Use the tool.")
	body["max_tokens"] = 512
	body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "get_weather", "description": "The weather of a city now.",
		"parameters": map[string]any{
			"type": "object", "required": []string{"city"},
			"properties": map[string]any{"city": map[string]any{"type": "string", "enum": []string{"Paris", "Oslo"}}},
		},
	}}}
	why := ""
	for _, choice := range []string{"auto", "required"} {
		body["tool_choice"] = choice
		a, err := r.send(ctx, http.MethodPost, r.pinned(completions), body)
		if err != nil {
			return Fail, err.Error()
		}
		if a.status != http.StatusOK && !m.NoTools {
			return Fail, a.fault()
		}
		for _, c := range a.completion().Choices {
			if c.Finish == "tool_calls" && len(c.Message.Calls) > 0 {
				if choice == "required" {
					return Pass, "it calls a tool when it has to (tool_choice required), not by itself"
				}
				return Pass, "it calls the tool"
			}
			why = "it finished with " + c.Finish + " and called nothing"
		}
	}
	if m.NoTools {
		return Skip, "its chat template speaks of no tools: agents cannot work with this model"
	}
	return Fail, why + ": agents cannot work with this model; see its chat template"
}

// pin wants a request that enters elsewhere and names this node to run here.
func (r *run) pin(ctx context.Context, m Model) (Outcome, string) {
	names, err := r.others(ctx)
	if err != nil {
		return Fail, err.Error()
	}
	if len(names) == 0 {
		return Skip, alone
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, name := range names {
		a, err := r.pinnedBy(ctx, name, m)
		switch node, origin := a.header.Get("X-Viiwork-Node"), a.header.Get("X-Viiwork-Origin"); {
		case err != nil:
			return Fail, fmt.Sprintf("by way of %s: %v", name, err)
		case a.status != http.StatusOK:
			return Fail, fmt.Sprintf("by way of %s: %s", name, a.fault())
		case node != r.cfg.Node || origin != name:
			return Fail, fmt.Sprintf("it entered at %s and ran on %s, not at %s and on %s", origin, node, name, r.cfg.Node)
		}
	}
	return Pass, "what enters at " + listed(names) + " runs here when it is to"
}

// pinnedBy asks by way of a member. One that has not heard yet that this node is ready says so, and is asked again.
func (r *run) pinnedBy(ctx context.Context, name string, m Model) (answer, error) {
	for begun := time.Now(); ; {
		a, err := r.send(ctx, http.MethodPost, path(name, r.pinned(completions)), message(m.Name, "Say the word pinned."))
		if err != nil || a.status != http.StatusServiceUnavailable || time.Since(begun) > settleWithin || !pause(ctx, 500*time.Millisecond) {
			return a, err
		}
	}
}
