package llama

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"viiwork/engine"
)

// proof is a request that costs an engine next to nothing and that only a loaded model can answer.
type proof struct {
	path string
	body func(model string) any
	list string // the answer's list that must not be empty
}

// proofs are tried in order: chat is what clients use; a base model may have no chat template; an embedding or a
// reranking server may do nothing else.
func proofs() []proof {
	return []proof{
		{"/v1/chat/completions", func(model string) any {
			message := map[string]string{"role": "user", "content": "."}
			return map[string]any{"model": model, "max_tokens": 1, "stream": false, "messages": []any{message}}
		}, "choices"},
		{"/v1/completions", func(model string) any {
			return map[string]any{"model": model, "max_tokens": 1, "stream": false, "prompt": "."}
		}, "choices"},
		{"/v1/embeddings", func(model string) any {
			return map[string]any{"model": model, "input": "."}
		}, "data"},
		{"/v1/rerank", func(model string) any {
			return map[string]any{"model": model, "query": ".", "documents": []string{"."}}
		}, "results"},
	}
}

// Prove sends a real request for one token and reads the answer. When every kind of request is refused the error
// carries the first refusal that was not "no such route".
func (d *Dialect) Prove(ctx context.Context, t engine.Target, model string) error {
	var first error
	telling := false
	for _, p := range proofs() {
		a, err := d.prove(ctx, t, p, model)
		if err == nil && a.status == http.StatusOK {
			return nil
		}
		if err != nil {
			return fmt.Errorf("proving the engine with one token: %w", err)
		}
		if found := a.status != http.StatusNotFound && a.status != http.StatusNotImplemented; first == nil || found && !telling {
			first, telling = a.fault(t, p.path), found
		}
		if final(a.status) {
			break
		}
	}
	return fmt.Errorf("proving the engine with one token: %w", first)
}

// prove tries one kind of request. A 200 that holds no result is an error: the route is there and does not work.
func (d *Dialect) prove(ctx context.Context, t engine.Target, p proof, model string) (answer, error) {
	body, err := json.Marshal(p.body(model))
	if err != nil {
		return answer{}, fmt.Errorf("writing the request: %w", err)
	}
	a, err := d.ask(ctx, t, http.MethodPost, p.path, body)
	if err != nil || a.status != http.StatusOK {
		return a, err
	}
	var shape map[string]json.RawMessage
	var results []json.RawMessage
	if json.Unmarshal(a.body, &shape) != nil || json.Unmarshal(shape[p.list], &results) != nil || len(results) == 0 {
		return a, fmt.Errorf("the engine answered %s with 200 and no %s", p.path, p.list)
	}
	return a, nil
}

// final says whether other routes would only meet the same refusal: our key is wrong, or the server is loading or full.
func final(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}
