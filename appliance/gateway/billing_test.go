package gateway_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/engine/enginetest"
)

// TestBillingLinesDoNotReachTheEngine: two turns that differ by them alone are the same bytes there, and the second is cached.
func TestBillingLinesDoNotReachTheEngine(t *testing.T) {
	text := strings.Repeat("say something. ", 40)
	for _, path := range []string{messagesPath, "/v1/messages/count_tokens"} {
		f := fake(t, enginetest.Options{Slots: 2, KeepBodies: true})
		n := start(t, model("m", 2, f.URL())).ready()
		for _, bill := range []string{"111", "2222"} {
			if r := n.post(path, claudeTurn(bill, text)); r.status != 200 {
				t.Fatalf("%s: %d %s", path, r.status, r.body)
			}
		}
		var seen [][]byte
		for _, s := range f.Requests() {
			if s.Path == path {
				seen = append(seen, s.Body)
			}
		}
		if len(seen) < 2 || !bytes.Equal(seen[len(seen)-1], seen[len(seen)-2]) || bytes.Contains(seen[len(seen)-1], []byte("billing")) || !json.Valid(seen[len(seen)-1]) {
			t.Errorf("%s: the engine saw %.300s", path, seen)
		}
	}
}

// TestARealEngineCachesWhatClaudeCodeSends.
func TestARealEngineCachesWhatClaudeCodeSends(t *testing.T) {
	enginetest.Real(t)
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	n := start(t, model("m", 1, enginetest.StartReal(t, path, "-a", "m", "-np", "1", "-c", "8192", "--cache-ram", "0"))).ready()
	for _, bill := range []string{"111", "2222"} {
		body := strings.Replace(claudeTurn(bill, strings.Repeat("say something. ", 40)), `"max_tokens":32000`, `"max_tokens":4`, 1)
		if r := n.post(messagesPath, body); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if row := n.g.Requests(1)[0]; row.PromptTokens == nil || 5**row.CachedTokens < 4**row.PromptTokens {
		t.Errorf("%+v", row)
	}
}

// TestOnlyBillingLinesAreTakenOut of a body, wherever its members stand.
func TestOnlyBillingLinesAreTakenOut(t *testing.T) {
	for _, c := range []struct{ path, body, want string }{
		{messagesPath, `{"system":"x-anthropic-billing-header: a=\"1\";\nS","model":"m","stream":true,"return_progress":true}`, `{"system":"S","model":"m","stream":true,"return_progress":true}`},
		{messagesPath, `{"stream":false,"system":[{"text":"x-anthropic-billing-header: \\n","type":"text"},{"type":"text","text":"S"}],"return_progress":true,"model":"m"}`,
			`{"stream":true,"system":[{"text":"","type":"text"},{"type":"text","text":"S"}],"return_progress":true,"model":"m"}`},
		{messagesPath, `{"model":"m","stream":true,"return_progress":true,"system":[{"type":"text","text":"S x-anthropic-billing-header:"},7,"x-anthropic-billing-header:"],"messages":["x-anthropic-billing-header: 1"]}`, ""},
		{messagesPath, `{"model":"m","stream":true,"return_progress":true,"system":{"text":"x-anthropic-billing-header:"}}`, ""},
		{messagesPath, `{"model":"m","stream":true,"return_progress":true,"system":[]}`, ""},
		{chatPath, `{"model":"m","stream":true,"return_progress":true,"system":"x-anthropic-billing-header: 1"}`, ""},
		{"/v1/messages/count_tokens", `{"model":"m","system":"x-anthropic-billing-header: 1"}`, `{"model":"m","system":""}`},
	} {
		want := c.want
		if want == "" {
			want = c.body
		}
		if got, err := gateway.Edited([]byte(c.body), c.path, true); err != nil || string(got) != want {
			t.Errorf("%v: the engine sees %s, want %s", err, got, want)
		}
	}
}
