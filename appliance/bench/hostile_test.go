package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"viiwork/appliance/bench"
)

// TestHostileAnswersAreBoundedAndNamed: whatever an entry answers, the turn fails in words of ours, and the run ends.
func TestHostileAnswersAreBoundedAndNamed(t *testing.T) {
	const chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for want, answer := range map[string]func(http.ResponseWriter){
		"broke off":           func(w http.ResponseWriter) { fmt.Fprint(w, chunk) },
		"error in the answer": func(w http.ResponseWriter) { fmt.Fprint(w, chunk, "data: {\"error\":{\"message\":\"<script>\"}}\n\n") },
		"answer too long": func(w http.ResponseWriter) {
			for range 100_000 {
				if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", strings.Repeat("a", 1000)); err != nil {
					return
				}
			}
		},
		"status 418": func(w http.ResponseWriter) { w.WriteHeader(418); fmt.Fprint(w, strings.Repeat("x", 1<<20)) },
		"status 302": func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(302) },
	} {
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/chat/completions" {
				steady(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			answer(w)
		}))
		cfg := usual(url)
		cfg.Sessions, cfg.Turns = 1, 1
		r := run(t, cfg)
		if len(r.Turns) != 1 || r.Turns[0].Error != want {
			t.Errorf("%+v, want %q", r.Turns, want)
		}
		if s := r.Summary(); s.Failed != 1 || s.Turns != 0 || len(s.Errors) != 1 || s.Errors[0].Error != want {
			t.Errorf("%+v", s)
		}
	}
}

// TestHostileFiguresAreNotBelieved: tokens that cannot be are as if not told.
func TestHostileFiguresAreNotBelieved(t *testing.T) {
	for usage, want := range map[string][3]int{
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}}`:   {10, 9, 2},
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":900}}`: {10, 10, 2},
		`{"prompt_tokens":-10,"completion_tokens":99999999999}`:                                    {-1, -1, -1},
		`{"prompt_tokens_details":{"cached_tokens":5}}`:                                            {-1, -1, -1},
		`null`: {-1, -1, -1},
	} {
		got := bench.Read([]byte("data: {\"usage\":"+usage+"}\n\ndata: [DONE]\n\n"), 100)
		if got.Err != nil || [3]int{got.Prompt, got.Cached, got.Output} != want {
			t.Errorf("%s: %+v", usage, got)
		}
	}
	if got := bench.Read([]byte(`data: {"timings":{"cache_n":7,"prompt_n":3,"predicted_n":4}}`+"\n\ndata: [DONE]\n\n"), 100); got.Prompt != 10 || got.Cached != 7 || got.Output != 4 {
		t.Errorf("%+v", got)
	}
}

func TestNamesFitEverywhere(t *testing.T) {
	for text, want := range map[string]string{
		"attic": "attic", "org/m:Q4#0": "org/m:Q4#0", "=1+1": "_1_1", "-x": "_x", "@a": "_a", "<b>\x1b[2J": "_b___2J", strings.Repeat("a", 500): strings.Repeat("a", 120),
	} {
		if got := bench.Name(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"tool_calls\":[]}}],\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n"))
	f.Add([]byte(": keep-alive\n\ndata: {\"timings\":{\"cache_n\":1,\"prompt_n\":-1}}\n\n"))
	f.Add([]byte("data: {\"error\":null,\"choices\":null}\ndata:[DONE]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := bench.Read(data, 50)
		if len(got.Text) > 50 || got.Cached > got.Prompt || got.Prompt < -1 || got.Output < -1 {
			t.Errorf("%+v", got)
		}
	})
}
