package gateway_test

import (
	"strings"
	"testing"

	"viiwork/engine/enginetest"
)

func TestAChatIsAnsweredStreamedAndNot(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2, Model: "org/m", Reply: "hello world"})
	n := start(t, model("org/m", 2, f.URL())).ready()

	r := n.post("/v1/chat/completions", chat("org/m", "hi", ""), "X-Viiwork-Task", "whole")
	doc := r.json(t)
	if r.status != 200 || at(doc, "object") != "chat.completion" || at(doc, "choices", 0, "message", "content") == "" || at(doc, "usage", "completion_tokens") == nil {
		t.Fatalf("not streamed: %d %s", r.status, r.body)
	}
	whole := at(doc, "choices", 0, "message", "content").(string)

	s := n.post("/v1/chat/completions", chat("org/m", "hi", `,"stream":true`))
	ev := events(s.body)
	if s.status != 200 || len(ev) == 0 || ev[len(ev)-1].data != "[DONE]" {
		t.Fatalf("streamed: %d %s", s.status, s.body)
	}
	if said(ev) != whole {
		t.Errorf("streamed %q, whole %q", said(ev), whole)
	}
	if strings.Contains(string(s.body), "prompt_progress") || strings.Contains(string(s.body), `"usage"`) {
		t.Errorf("the client got what it did not ask for: %s", s.body)
	}
	for _, name := range []string{"Node", "Origin", "Backend", "Model", "Key", "Route", "Queue-Ms", "Request-Id"} {
		if r.head.Get("X-Viiwork-"+name) == "" || s.head.Get("X-Viiwork-"+name) == "" {
			t.Errorf("X-Viiwork-%s is missing", name)
		}
	}
	row := n.row("whole", "done")
	if row.Status != 200 || row.PromptTokens == nil || row.CachedTokens == nil || row.OutputTokens == nil || *row.OutputTokens != 8 && *row.OutputTokens == 0 || row.TTFTMS == nil || row.QueueMS == nil || row.Reason != "only" || row.KeySource != "none" {
		t.Errorf("row %+v", row)
	}
}
