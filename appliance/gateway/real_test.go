package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/engine/enginetest"
)

// shape lists the paths of all members of a JSON document; arrays count by their first element.
func shape(prefix string, v any, out *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			*out = append(*out, prefix+"."+k)
			shape(prefix+"."+k, x, out)
		}
	case []any:
		if len(v) > 0 {
			shape(prefix+"[]", v[0], out)
		}
	}
	slices.Sort(*out)
}

// TestTheGatewayChangesNothingOfAnAnswer: a request without stream gets through the gateway, which streams, what the
// engine itself answers: the same members everywhere and, greedily sampled, the same text.
func TestTheGatewayChangesNothingOfAnAnswer(t *testing.T) {
	onEngines(t, enginetest.Options{Slots: 2, Model: "m", Embeddings: true, Rerank: true}, func(t *testing.T, serve func() string) {
		url := serve()
		n := start(t, model("m", 2, url)).ready()
		for path, body := range map[string]string{
			"/v1/chat/completions":      `{"model":"m","messages":[{"role":"user","content":"tell me"}],"max_tokens":12%s}`,
			"/v1/completions":           `{"model":"m","prompt":"once upon","max_tokens":12%s}`,
			"/v1/messages":              `{"model":"m","messages":[{"role":"user","content":"tell me"}],"max_tokens":12%s}`,
			"/v1/responses":             `{"model":"m","input":"tell me","max_output_tokens":12%s}`,
			"/infill":                   `{"model":"m","input_prefix":"a","input_suffix":"b","n_predict":12%s}`,
			"/tokenize":                 `{"model":"m","content":"tell me"%s}`,
			"/apply-template":           `{"model":"m","messages":[{"role":"user","content":"tell me"}]%s}`,
			"/v1/messages/count_tokens": `{"model":"m","messages":[{"role":"user","content":"tell me"}]%s}`,
			"/v1/rerank":                `{"model":"m","query":"a","documents":["a","b"]%s}`,
			"/v1/embeddings":            `{"model":"m","input":"tell me"%s}`,
		} {
			for _, more := range []string{"", `,"logprobs":true,"top_logprobs":2`, `,"stream":false`} {
				body := fmt.Sprintf(body, `,"temperature":0,"seed":1`+more)
				if path == "/v1/completions" {
					body = strings.Replace(body, `"logprobs":true`, `"logprobs":2`, 1)
				}
				direct := directly(t, url+path, body)
				through := n.post(path, body)
				compare(t, path+" "+more, direct, through)
			}
		}
	})
}

// onEngines runs a test on engines that behave as the options say, and on real ones with as many slots where they are. serve
// starts one more and gives its address.
func onEngines(t *testing.T, o enginetest.Options, test func(t *testing.T, serve func() string)) {
	t.Run("fake", func(t *testing.T) {
		test(t, func() string { return fake(t, o).URL() })
	})
	t.Run("real", func(t *testing.T) {
		enginetest.Real(t)
		path := filepath.Join(t.TempDir(), "tiny.gguf")
		if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
			t.Fatal(err)
		}
		test(t, func() string {
			return enginetest.StartReal(t, path, "-a", "m", "-np", fmt.Sprint(o.Slots), "-c", fmt.Sprint(o.Slots*slotTokens), "-t", "1", "--cache-ram", "0")
		})
	})
}

// slotTokens is the context of a real engine's slot, more than any of these conversations has.
const slotTokens = 16 << 10

func directly(t *testing.T, url, body string) reply {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, head: resp.Header, body: b}
}

func compare(t *testing.T, what string, direct, through reply) {
	t.Helper()
	if direct.status != through.status {
		t.Errorf("%s: %d, directly %d: %s / %s", what, through.status, direct.status, through.body, direct.body)
		return
	}
	if direct.status != 200 {
		if at(direct.json(t), "error", "message") != at(through.json(t), "error", "message") {
			t.Errorf("%s: %s, directly %s", what, through.body, direct.body)
		}
		return
	}
	var a, b []string
	shape("", direct.json(t), &a)
	shape("", through.json(t), &b)
	if !slices.Equal(a, b) {
		t.Errorf("%s: members\n%v\ndirectly\n%v", what, b, a)
	}
	for _, text := range [][]any{{"choices", 0, "message", "content"}, {"choices", 0, "text"}, {"content", 0, "text"}, {"content"}, {"output", 0, "content", 0, "text"}, {"choices", 0, "finish_reason"}, {"stop_reason"}, {"prompt"}, {"input_tokens"}, {"usage", "completion_tokens"}, {"usage", "output_tokens"}} {
		d, th := at(direct.json(t), text...), at(through.json(t), text...)
		if _, list := d.([]any); !list && d != th {
			t.Errorf("%s: %v is %v, directly %v", what, text, th, d)
		}
	}
}
