package gateway_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestPlainAnswersPassUntouched(t *testing.T) {
	for _, size := range []int{10, 256 << 10, 1 << 20} {
		want := `{"usage":{"prompt_tokens":7},"data":"` + strings.Repeat("x", size) + `"}`
		u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.Header().Set("Content-Length", strconv.Itoa(len(want)))
			_, _ = w.Write([]byte(want))
		})
		n := start(t, model("m", 1, u)).ready()
		// The last: an engine that does not stream although it was asked to.
		for _, path := range []string{"/v1/embeddings", "/v1/rerank", "/tokenize", "/v1/chat/completions"} {
			r := n.post(path, `{"model":"m","x":"scripted","stream":true}`, "X-Viiwork-Task", path)
			if r.status != 200 || string(r.body) != want || r.head.Get("Content-Type") != "application/json; charset=utf-8" || r.head.Get("Content-Length") != strconv.Itoa(len(want)) {
				t.Errorf("%s: %d %v, %d bytes", path, r.status, r.head, len(r.body))
			}
			row := n.row(path, "done")
			if row.Status != 200 || size < 100 && *row.PromptTokens != 7 {
				t.Errorf("row %+v", row)
			}
		}
		freed(n)
	}
}

// TestAPlainAnswerCutShortNeverLooksComplete: small ones become an error, large ones, whose status is out, a broken
// connection.
func TestAPlainAnswerCutShortNeverLooksComplete(t *testing.T) {
	for _, size := range []int{1000, 1 << 20} {
		u := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(2*size))
			_, _ = w.Write([]byte(strings.Repeat("x", size)))
			panic(http.ErrAbortHandler)
		})
		n := start(t, model("m", 2, u)).ready()
		r := n.post("/v1/embeddings", `{"model":"m","x":"scripted"}`, "X-Viiwork-Task", "cut")
		if size < 10_000 {
			wantError(t, r, false, 502, "server_error", "engine_broke_off")
		} else if r.err == nil {
			t.Errorf("%d bytes look complete", len(r.body))
		}
		if row := n.row("cut", "done"); row.Status != 502 {
			t.Errorf("row %+v", row)
		}
	}
}
