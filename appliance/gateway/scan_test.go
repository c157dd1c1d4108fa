package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
)

func TestScanFindsTheTopLevelOnly(t *testing.T) {
	for _, c := range []struct{ body, model, stream string }{
		{`{"model":"a"}`, `"a"`, ""},
		{` { "x" : { "model" : "no" } , "model" : "org\/m" , "stream" : true } `, `"org\/m"`, "true"},
		{`{"messages":[{"content":"\"model\":\"no\""}],"model":"a"}`, `"a"`, ""},
		{`{"model":"a","model":"b"}`, `"b"`, ""},
		{`{"\u006dodel":"a"}`, `"a"`, ""},
		{`{"Model":"a"}`, "", ""},
		{`{}`, "", ""},
		{`{"stream":null,"n":-1.5e+10,"t":[[],{},"",0,true,false,null]}`, "", "null"},
	} {
		got, err := gateway.Scan([]byte(c.body))
		if err != nil || got.Model != c.model || got.Stream != c.stream {
			t.Errorf("%s: %+v, %v", c.body, got, err)
		}
	}
}

func TestScanDecodesAnEscapedModel(t *testing.T) {
	got, err := gateway.ModelOf([]byte(`{"model":"org\/\u006d \u00e9"}`))
	if err != nil || got != "org/m é" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestScanRefusesWhatIsNoJSON(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", gateway.MaxDepth) + strings.Repeat("]", gateway.MaxDepth) + "}"
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":1}x`, `{"a":1}{}`,
		`{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":-}`, `{"a":tru}`, `{"a":nulll}`,
		`{"a":"x}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12`, `{"a":"` + "\n" + `"}`, `{"a":[1 2]}`, `{"a":[1,]}`, `{"a":[}`,
		`{"a":{"b":]}}`, `{"a":1 "b":2}`, "{\"a\":\"\x00\"}", "\xef\xbb\xbf{}", `{bad`, deep,
	} {
		if json.Valid([]byte(body)) && strings.HasPrefix(body, "{") && body != deep {
			t.Fatalf("the case %s is wrong", body)
		}
		if _, err := gateway.Scan([]byte(body)); err == nil {
			t.Errorf("%.60q was accepted", body)
		}
	}
}

func TestScanFindsTheSessionOfMetadata(t *testing.T) {
	got, err := gateway.Scan([]byte(`{"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"s-1\"}"},"prompt_cache_key":"k"}`))
	if err != nil || got.UserSession != "s-1" || got.CacheKey != `"k"` {
		t.Errorf("%+v, %v", got, err)
	}
	got, _ = gateway.Scan([]byte(`{"metadata":{"user_id":"just a person"}}`))
	if got.UserSession != "" {
		t.Errorf("a person was taken for a session: %+v", got)
	}
}

func TestScanBoundsRepeatedFields(t *testing.T) {
	if _, err := gateway.Scan([]byte(`{` + strings.Repeat(`"stream":true,`, 1000) + `"model":"a"}`)); err == nil {
		t.Error("a thousand stream fields were accepted")
	}
}

// FuzzScanAgreesWithEncodingJSON: what encoding/json takes for an object scans, with the same values; what it refuses
// is refused.
func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`{"model":"a","stream":true}`, `{"\u006dodel":"a\n","x":[1,{"model":2}]}`, `{"model":"é\ud83d\ude00"}`, `{"a":"\\"}`, `{"a":"1234567\"8"}`, `{} x`, `{"stream":false,"stream":null}`, "{\"model\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := gateway.Scan(body)
		var want map[string]json.RawMessage
		jsonErr := json.Unmarshal(body, &want)
		if jsonErr != nil || want == nil {
			if err == nil {
				t.Fatalf("accepted %q, which encoding/json refuses: %v", body, jsonErr)
			}
			return
		}
		if err != nil {
			if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) > gateway.MaxDepth || strings.Contains(err.Error(), "too often") {
				return
			}
			t.Fatalf("refused %q: %v", body, err)
		}
		if got.Model != string(want["model"]) || got.Stream != string(want["stream"]) {
			t.Fatalf("%q: got %+v, want %s %s", body, got, want["model"], want["stream"])
		}
		var s string
		if json.Unmarshal(want["model"], &s) == nil && want["model"][0] == '"' && len(want["model"]) < 400 {
			if m, err := gateway.ModelOf(body); err != nil || m != s {
				t.Fatalf("%q: model %q, want %q (%v)", body, m, s, err)
			}
		}
	})
}

func TestEditsLeaveAllElseUntouched(t *testing.T) {
	for _, c := range []struct {
		path, body string
		stream     bool
		want       string
	}{
		{"/v1/chat/completions", `{"model":"a", "x": 1.0 }`, false, `{"stream":true,"return_progress":true,"stream_options":{"include_usage":true},"model":"a", "x": 1.0 }`},
		{"/v1/chat/completions", `{"stream" : true,"x":"é\u00e9"}`, true, `{"return_progress":true,"stream" : true,"x":"é\u00e9"}`},
		{"/v1/chat/completions", `{"stream":false,"stream_options":null,"id_slot":3}`, false, `{"return_progress":true,"stream":true,"stream_options":{"include_usage":true},"id_slot":-1}`},
		{"/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":false}}`, true, `{"return_progress":true,"stream":true,"stream_options":{"include_usage":false}}`},
		{"/v1/messages", `{"stream":false,"id_slot":1,"stream":false}`, false, `{"return_progress":true,"stream":true,"id_slot":-1,"stream":true}`},
		{"/v1/responses", ` {}`, false, ` {"stream":true,"return_progress":true}`},
		{"/v1/embeddings", `{"stream":false,"id_slot":1}`, false, `{"stream":false,"id_slot":1}`},
	} {
		got, err := gateway.Edited([]byte(c.body), c.path, c.stream)
		if err != nil || string(got) != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s (%v)", c.path, c.body, got, c.want, err)
		}
		if !json.Valid(got) {
			t.Errorf("%s is no JSON any more", got)
		}
	}
}

func body64(t testing.TB) []byte {
	text, err := json.Marshal(strings.Repeat("The quick brown fox jumps over the \"lazy\" dog.\n", 1300))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(fmt.Sprintf(`{"messages":[{"role":"system","content":%s}],"stream":true,"model":"org/m"}`, text))
}

// TestScanAllocatesNothing is what keeps a large body cheap; the time is BenchmarkScan64KiB's.
func TestScanAllocatesNothing(t *testing.T) {
	body := body64(t)
	if n := testing.AllocsPerRun(20, func() { _ = gateway.ScanOnly(body) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScan64KiB(b *testing.B) {
	body := body64(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := gateway.ScanOnly(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode64KiB(b *testing.B) {
	body := body64(b)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var v struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
		}
		if err := json.Unmarshal(body, &v); err != nil {
			b.Fatal(err)
		}
	}
}
