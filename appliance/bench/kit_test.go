package bench_test

import (
	"fmt"
	"io"
	"net/http"
)

// steady answers everything as a node of one model would whose engine claims that all prompts are short.
func steady(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch r.URL.Path {
	case "/v1/models":
		fmt.Fprint(w, `{"data":[{"id":"m","context_length":65536}]}`)
	case "/v1/chat/completions":
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"well\"}}]}\n\n",
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n",
			"data: [DONE]\n\n")
	default:
		http.NotFound(w, r)
	}
}
