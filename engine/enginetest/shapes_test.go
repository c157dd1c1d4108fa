package enginetest_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "write testdata/shapes.golden from the real server's answers")

const (
	golden        = "testdata/shapes.golden"
	recordedBuild = "b11669-Debian"
)

// TestShapesAreTheRealOnes asks the same questions of the fake and the real server and holds both answers' shapes
// against what was recorded from the real one: status, content type, keys and their kinds, the values that are no
// matter of chance, and the order of events.
func TestShapesAreTheRealOnes(t *testing.T) {
	if *record {
		text := shapesOf(realTarget(t))
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	bothTargets(t, func(t *testing.T, tg target) {
		if got := at(tg.do("GET", "/props", nil).json(t), "build_info"); got != recordedBuild {
			t.Skipf("the shapes were recorded from %s, this is %v: run with -record to see what changed", recordedBuild, got)
		}
		compareLines(t, string(want), shapesOf(tg))
	})
}

func compareLines(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	section := ""
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if strings.HasPrefix(a, "# ") {
			section = a
		}
		if a != b {
			t.Fatalf("line %d, in %s\nrecorded %s\n     got %s", i+1, section, a, b)
		}
	}
}

type question struct {
	method, path string
	body         any
}

func questions() []question {
	talk := []any{body{"role": "system", "content": "be kind"}, body{"role": "user", "content": strings.Repeat("hello ", 10)}}
	long := strings.Repeat("x", 5000)
	with := func(b body, more body) body {
		b = maps.Clone(b)
		maps.Copy(b, more)
		return b
	}
	var q []question
	post := func(path string, b any) { q = append(q, question{"POST", path, b}) }
	get := func(path string) { q = append(q, question{"GET", path, nil}) }

	// What uses both slots at one time comes last: in which order it lets go of them is chance.
	last := []question{
		{"POST", "/completion", body{"prompt": []any{"third", "fourth"}, "n_predict": 1, "ignore_eos": true}},
		{"POST", "/v1/completions", body{"prompt": []any{"first", "second"}, "max_tokens": 1, "temperature": 0}},
	}
	get("/health")
	get("/v1/health")
	get("/slots")
	get("/props")
	get("/v1/models")
	// Each route in each form; the length is set by max_tokens, so that chance has no part in it.
	fixed := body{"temperature": 0, "ignore_eos": true}
	for _, r := range []struct {
		path string
		body body
		max  string
		more bool // knows n or lists of prompts
	}{
		{"/v1/chat/completions", body{"messages": talk}, "max_tokens", true},
		{"/v1/completions", body{"prompt": "once upon a time"}, "max_tokens", true},
		{"/completion", body{"prompt": "twice upon a time"}, "n_predict", false},
		{"/v1/messages", body{"messages": talk[1:], "system": "be brief"}, "max_tokens", false},
		{"/v1/responses", body{"input": "responding", "instructions": "be quick"}, "max_output_tokens", false},
		{"/infill", body{"input_prefix": "func main() {", "input_suffix": "}"}, "n_predict", false},
	} {
		b := with(with(r.body, fixed), body{r.max: 4})
		stream := with(b, body{"stream": true})
		post(r.path, b)
		post(r.path, stream)
		post(r.path, with(stream, body{"return_progress": true}))
		post(r.path, with(stream, body{"stream_options": body{"include_usage": true}}))
		post(r.path, with(stream, body{"timings_per_token": true}))
		post(r.path, with(b, body{r.max: 1, "stream": true}))
		post(r.path, "{bad")
		post(r.path, "")
		post(r.path, body{})
		post(r.path, with(b, body{"stream": "x"}))
		post(r.path, with(b, body{r.max: "x"}))
		if r.more {
			post(r.path, with(b, body{"n": 3}))
			last = append(last, question{"POST", r.path, with(b, body{"n": 2})})
		}
	}
	get("/slots")
	post("/v1/completions", body{"prompt": []any{97, 98, 257}, "max_tokens": 1, "temperature": 0})
	post("/completion", body{"prompt": "a list", "n_predict": 2, "return_tokens": true, "ignore_eos": true})
	post("/v1/chat/completions", body{"messages": "x"})
	post("/v1/chat/completions", "[]")
	post("/v1/chat/completions", body{"messages": []any{}, "max_tokens": 1, "ignore_eos": true})
	post("/v1/chat/completions", body{"messages": []any{body{"role": "user", "content": []any{body{"type": "text", "text": "ab"},
		body{"type": "text", "text": "cd"}}}}, "max_tokens": 1, "ignore_eos": true})

	for path, b := range map[string]body{"/v1/chat/completions": {"messages": user(long)}, "/v1/completions": {"prompt": long},
		"/completion": {"prompt": long}, "/v1/messages": {"messages": user(long), "max_tokens": 3}, "/v1/responses": {"input": long}} {
		post(path, b)
		post(path, with(b, body{"stream": true}))
	}
	slices.SortStableFunc(q[len(q)-10:], func(a, b question) int { return strings.Compare(a.path, b.path) })
	post("/v1/completions", body{"prompt": long[:4096], "max_tokens": 1})

	post("/tokenize", body{"content": "<|im_start|>hé"})
	post("/tokenize", body{"content": "a<|", "with_pieces": true})
	post("/tokenize", body{})
	post("/detokenize", body{"tokens": []any{97, 98, 257}})
	post("/apply-template", body{"messages": talk})
	post("/apply-template", body{})
	post("/v1/messages/count_tokens", body{"messages": talk[1:], "system": "sys"})
	post("/v1/messages/count_tokens", body{})
	post("/v1/chat/completions/input_tokens", body{"messages": talk})
	post("/v1/responses/input_tokens", body{"input": "abc"})
	post("/v1/embeddings", body{"input": "abc"})
	post("/v1/rerank", body{"query": "a", "documents": []any{"b"}})
	post("/props", body{})

	post("/slots/0?action=save", body{"filename": "a.bin"})
	post("/slots/0?action=restore", body{"filename": "a.bin"})
	post("/slots/0?action=restore", body{"filename": "none.bin"})
	post("/slots/0?action=erase", nil)
	post("/slots/0?action=sing", body{})
	post("/slots/0", body{})
	post("/slots/x?action=save", body{"filename": "a.bin"})
	post("/slots/0?action=save", body{"filename": "../a.bin"})
	post("/slots/0?action=save", body{"filename": ""})
	post("/slots/0?action=save", body{})

	post("/v1/streams/lookup", body{"conversation_ids": []any{"a"}})
	get("/v1/stream?conv_id=a")
	q = append(q, question{"DELETE", "/v1/stream?conv_id=a", nil})
	get("/nowhere")
	get("/v1/chat/completions")
	post("/health", body{})
	get("/metrics")
	return append(q, last...)
}

func shapesOf(tg target) string {
	var out strings.Builder
	for _, q := range questions() {
		asked := fmt.Sprint(q.body)
		if b, ok := q.body.(body); ok {
			data, _ := json.Marshal(b)
			asked = string(data)
		}
		fmt.Fprintf(&out, "# %s %s %.160s\n", q.method, q.path, asked)
		r := tg.do(q.method, q.path, q.body)
		fmt.Fprintf(&out, "%d %s\n%s\n", r.status, r.header.Get("Content-Type"), shapeOfBody(r))
	}
	keyless := tg
	keyless.key = ""
	for _, path := range []string{"/v1/models", "/slots", "/nowhere", "/health"} {
		r := keyless.do("GET", path, nil)
		fmt.Fprintf(&out, "# keyless GET %s\n%d\n%s\n", path, r.status, shapeOfBody(r))
	}
	return out.String()
}

func shapeOfBody(r reply) string {
	kind := r.header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		return shapeOfStream(string(r.body))
	case strings.HasPrefix(kind, "application/json") && len(r.body) > 0:
		var v any
		if err := json.Unmarshal(r.body, &v); err != nil {
			return fmt.Sprintf("no JSON: %v", err)
		}
		return shape("", v)
	case strings.HasPrefix(kind, "text/plain"):
		return shapeOfMetrics(string(r.body))
	}
	return string(r.body)
}

// shapeOfStream lists the shapes of events in their order, equal ones in a row once.
func shapeOfStream(text string) string {
	var lines []string
	name := ""
	for line := range strings.SplitSeq(text, "\n") {
		rest, isData := strings.CutPrefix(line, "data: ")
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line + " "
			continue
		case isData:
			var v any
			if json.Unmarshal([]byte(rest), &v) == nil {
				line = name + "data: " + shape("", v)
			}
			name = ""
		case line == "":
			continue
		}
		if len(lines) == 0 || lines[len(lines)-1] != line {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func shapeOfMetrics(text string) string {
	var names []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "# TYPE") {
			names = append(names, line)
		} else if name, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			names = append(names, name)
		}
	}
	return strings.Join(names, "\n")
}

// shown are the keys whose values are told, being the same in every run.
var shown = []string{"type", "object", "finish_reason", "stop_reason", "status", "role", "code", "message", "model", "id_slot",
	"stop_type", "stop", "prompt", "index", "total_slots", "n_ctx", "system_fingerprint", "prompt_tokens", "completion_tokens",
	"total_tokens", "input_tokens", "output_tokens", "n_prompt_tokens", "n_prompt_tokens_cache", "n_prompt_tokens_processed",
	"is_processing", "tokens_evaluated", "tokens_predicted", "tokens_cached", "cached_tokens", "cache_read_input_tokens",
	"cache_n", "prompt_n", "predicted_n", "total", "cache", "processed", "n_saved", "n_restored", "n_erased", "build_info",
	"n_vocab", "content_type", "filename", "is_sleeping", "n_decoded", "piece", "truncated"}

// hidden are the keys of which only the presence is told: the fake knows fewer settings than the engine.
var hidden = []string{"params", "generation_settings", "chat_template_caps", "models", "ui_settings"}

func shape(key string, v any) string {
	if slices.Contains(hidden, key) {
		return "…"
	}
	switch x := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, k+":"+shape(k, x[k]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		if key == "tokens" || key == "prompt" {
			return fmt.Sprintf("[%d]", len(x))
		}
		var parts []string
		for _, e := range x {
			parts = append(parts, shape(key, e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case string:
		if !slices.Contains(shown, key) {
			return "text"
		}
		if i := strings.Index(x, "parse error"); i >= 0 {
			x = x[:i] + "parse error"
		}
		return fmt.Sprintf("%q", x)
	case float64:
		if !slices.Contains(shown, key) {
			return "number"
		}
	case nil:
		return "null"
	case bool:
		if !slices.Contains(shown, key) {
			return "bool"
		}
	}
	return fmt.Sprint(v)
}
