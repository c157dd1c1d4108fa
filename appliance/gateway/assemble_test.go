package gateway_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
)

func sse(events ...string) []byte {
	var b strings.Builder
	for _, e := range events {
		var named struct{ Type string }
		_ = json.Unmarshal([]byte(e), &named)
		if named.Type != "" {
			b.WriteString("event: " + named.Type + "\n")
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return []byte(b.String())
}

func TestStreamsAreAssembledAsTheSameRequestUnstreamed(t *testing.T) {
	for _, c := range []struct {
		name, path string
		stream     []byte
		want       string
	}{
		{"chat with tools, reasoning, log probabilities and two choices", "/v1/chat/completions", sse(
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"m"},"logprobs":{"content":[{"token":"a"}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":1,"delta":{"role":"assistant","content":"B"},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{\"a"}}]},"logprobs":{"content":[{"token":"b"}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}},{"index":1,"id":"u","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"id":"c","choices":[{"index":1,"delta":{"content":"é"},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":1,"delta":{},"finish_reason":"stop"}],"system_fingerprint":"b"}`,
			`{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":3},"timings":{"cache_n":1},"new":{"x":1.0}}`,
		), `{"id":"c","object":"chat.completion","created":1,"model":"m","system_fingerprint":"b","usage":{"prompt_tokens":3},"timings":{"cache_n":1},"new":{"x":1.0},"choices":[
			{"index":0,"finish_reason":"tool_calls","logprobs":{"content":[{"token":"a"},{"token":"b"}]},"message":{"role":"assistant","content":null,"reasoning_content":"hmm","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"u","type":"function","function":{"name":"g","arguments":"{}"}}]}},
			{"index":1,"finish_reason":"stop","message":{"role":"assistant","content":"Bé"}}]}`},
		{"completions of two prompts", "/v1/completions", sse(
			`{"object":"text_completion","choices":[{"text":"b","index":1,"logprobs":null,"finish_reason":null}]}`,
			`{"object":"text_completion","choices":[{"text":"a","index":0,"logprobs":null,"finish_reason":null}]}`,
			`{"object":"text_completion","choices":[{"text":"","index":1,"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":1}}`,
			`{"object":"text_completion","choices":[{"text":"!","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":2}}`,
		), `{"object":"text_completion","usage":{"prompt_tokens":2},"choices":[{"text":"a!","index":0,"logprobs":null,"finish_reason":"stop"},{"text":"b","index":1,"logprobs":null,"finish_reason":"length"}]}`},
		{"messages with thinking and a tool", "/v1/messages", sse(
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":0}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"ping"}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"[1]}"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":4}}`,
			`{"type":"message_stop"}`,
		), `{"id":"m","type":"message","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"usage":{"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":4},
			"content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"ab"},{"type":"tool_use","id":"t","name":"f","input":{"a":[1]}}]}`},
		{"responses", "/v1/responses", sse(
			`{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_text.delta","delta":"x"}`,
			`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","output":[{"x":1}]},"timings":{}}`,
		), `{"id":"r","status":"incomplete","output":[{"x":1}]}`},
		{"infill", "/infill", sse(
			`{"content":"a","tokens":[1],"stop":false}`, `{"content":"b","tokens":[2],"stop":false,"completion_probabilities":[{"p":1}]}`, `{"content":"","tokens":[],"stop":true,"timings":{"cache_n":1}}`,
		), `{"content":"ab","tokens":[],"stop":true,"timings":{"cache_n":1},"completion_probabilities":[{"p":1}]}`},
	} {
		got, err := gateway.Assemble(c.path, c.stream)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var g, w any
		if err := json.Unmarshal([]byte(c.want), &w); err != nil {
			t.Fatal(c.name, err)
		}
		_ = json.Unmarshal(got, &g)
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestAnAnswerOfTooManyPartsIsRefused(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		n, _ := json.Marshal(i)
		b.WriteString("data: {\"choices\":[{\"index\":" + string(n) + ",\"delta\":{}}]}\n\n")
	}
	if _, err := gateway.Assemble("/v1/chat/completions", []byte(b.String())); err == nil {
		t.Error("five thousand choices were assembled")
	}
}
