package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
)

var chainKey = []byte("0123456789abcdef0123456789abcdef")

func prefixOf(t testing.TB, path, body string) gateway.Prefix {
	t.Helper()
	p, err := gateway.PrefixOf(chainKey, path, []byte(body))
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return p
}

const (
	chatPath        = "/v1/chat/completions"
	messagesPath    = "/v1/messages"
	responsesPath   = "/v1/responses"
	completionsPath = "/v1/completions"
	infillPath      = "/infill"
)

// claudeTurn is how Claude Code writes a conversation: a billing line that differs in each request, and cache_control at the
// newest message, which it makes a list for that.
func claudeTurn(bill string, texts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=%s"},`+
		`{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Bash","input_schema":{"type":"object"}}],"messages":[`, bill)
	for i, text := range texts {
		role := [2]string{"user", "assistant"}[i%2]
		if i > 0 {
			b.WriteByte(',')
		}
		if i == len(texts)-1 {
			fmt.Fprintf(&b, `{"role":%q,"content":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}]}`, role, text)
		} else {
			fmt.Fprintf(&b, `{"role":%q,"content":%q}`, role, text)
		}
	}
	return b.String() + `],"metadata":{"user_id":"{\"session_id\":\"s\"}"},"max_tokens":32000,"stream":true}`
}

// TestAConversationGoesOnFromItsLinks: the next turn of a client shares all steps of the turn before, as each client writes
// its turns.
func TestAConversationGoesOnFromItsLinks(t *testing.T) {
	block := strings.Repeat("0123456789abcdef", 64)
	for _, c := range []struct {
		name, path, before, after string
		steps                     int // of before
	}{
		{"chat", chatPath,
			`{"model":"m","tools":[{"type":"function","function":{"name":"ls"}}],"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}],"stream":true}`,
			`{"model":"m","tools":[{"type":"function","function":{"name":"ls"}}],"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},` +
				`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"p\":\"/\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"x"}],"stream":true}`, 2},
		{"responses", responsesPath,
			`{"model":"m","instructions":"S","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"D"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}],"prompt_cache_key":"k"}`,
			`{"model":"m","instructions":"S","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"D"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},` +
				`{"type":"function_call","call_id":"c","name":"sh","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}],"prompt_cache_key":"k"}`, 2},
		{"messages", messagesPath, claudeTurn("111", "a"), claudeTurn("222", "a", "b", "c"), 2},
		{"messages, later", messagesPath, claudeTurn("222", "a", "b", "c"), claudeTurn("333", "a", "b", "c", "d", "e"), 4},
		{"completions", completionsPath, `{"model":"m","prompt":"` + block + block + `tail"}`, `{"model":"m","prompt":"` + block + block + `tail and more"}`, 3},
		{"infill", infillPath, `{"model":"m","input_extra":[],"input_prefix":"` + block + `","input_suffix":"}"}`, `{"model":"m","input_extra":[],"input_prefix":"` + block + `x","input_suffix":"}"}`, 2},
	} {
		before, after := prefixOf(t, c.path, c.before), prefixOf(t, c.path, c.after)
		if before.Steps() != c.steps || before.Common(after) != c.steps || after.Common(before) != c.steps {
			t.Errorf("%s: %d steps, %d in common, want %d", c.name, before.Steps(), before.Common(after), c.steps)
		}
	}
}

// TestALinkIsWhatItWas: links are told to other nodes and outlive an update, so their form does not change unnoticed.
func TestALinkIsWhatItWas(t *testing.T) {
	for _, c := range []struct{ path, body, want string }{
		{chatPath, `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a\n\"b\""}]}`, "36cf14dfae72906f893c251a04d59bde"},
		{messagesPath, claudeTurn("1", "a"), "db2e8983e076487a2859792b64b1d083"},
		{responsesPath, `{"model":"m","input":"a"}`, "bc7b1d41ed011744282cc946c642a046"},
		{completionsPath, `{"model":"m","prompt":"` + strings.Repeat("é", 512) + `"}`, "9add1c6c2382ba8fff97cc49bc599886"},
	} {
		links := prefixOf(t, c.path, c.body).Links()
		got, _ := links[len(links)-1].MarshalText()
		if string(got) != c.want {
			t.Errorf("%s: the link is %s, want %s", c.path, got, c.want)
		}
	}
}

// TestSpellingMakesNoOtherLink: what JSON lets one write in several ways is the same prompt.
func TestSpellingMakesNoOtherLink(t *testing.T) {
	for _, c := range []struct{ path, a, b string }{
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"é/\n\"<\u001b\\"}]}`, ` { "messages" : [ { "role" : "user" , "content" : "\u00e9\/\u000a\u0022\u003C\u001B\u005c" } ] , "model" : "m" } `},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"😀"}]}`, `{"model":"m","messages":[{"role":"user","content":"\ud83d\ude00"}]}`},
		{chatPath, `{"model":"m","messages":[{"role":"assistant","content":"a"}]}`, `{"model":"m","messages":[{"role":"assistant","content":"a","refusal":null,"tool_calls":null}]}`},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","temperature":0.5,"max_tokens":7,"stream":true,"messages":[{"role":"user","content":"a"}]}`},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","messages":[1,2],"tools":null,"messages":[{"role":"user","content":"a"}]}`},
		{responsesPath, `{"model":"m","input":"a"}`, `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]}`},
		{messagesPath, `{"model":"m","system":"S","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","system":[{"text":"S","type":"text"}],"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}`},
		{messagesPath, `{"model":"m","system":"S","messages":[]}`, `{"model":"m","system":"x-anthropic-billing-header: cch=1;\nS","messages":[]}`},
		{messagesPath, `{"model":"m","system":"S","messages":[]}`, `{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: \"cch\"=1;"},{"type":"text","text":"S"}],"messages":[]}`},
		{messagesPath, `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}],"cache_control":{"type":"ephemeral"}}]}]}`},
		{completionsPath, `{"model":"m","prompt":"` + strings.Repeat("é", 2000) + `"}`, `{"model":"m","prompt":"` + strings.Repeat(`\u00E9`, 2000) + `"}`},
	} {
		a, b := prefixOf(t, c.path, c.a), prefixOf(t, c.path, c.b)
		if a.Steps() != b.Steps() || a.Common(b) != a.Steps() {
			t.Errorf("%d and %d steps, %d in common:\n%.200s\n%.200s", a.Steps(), b.Steps(), a.Common(b), c.a, c.b)
		}
	}
}

// TestAnotherPromptHasOtherLinks from the step on in which it differs.
func TestAnotherPromptHasOtherLinks(t *testing.T) {
	for _, c := range []struct {
		path, a, b string
		common     int
	}{
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"n","messages":[{"role":"user","content":"a"}]}`, 0},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","tools":[{}],"messages":[{"role":"user","content":"a"}]}`, 0},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","chat_template_kwargs":{"enable_thinking":false},"messages":[{"role":"user","content":"a"}]}`, 0},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"a"}]}`, 0},
		{chatPath, `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}]}`, `{"model":"m","messages":[{"role":"system","content":"T"},{"role":"user","content":"a"}]}`, 0},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","messages":[{"role":"assistant","content":"a"}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","messages":[{"role":"user","content":"a "}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"A"}]}`, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"ab"},{"role":"user","content":"c"}]}`, `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"bc"}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"ab"}]}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`, `{"model":"m","messages":[{"role":"user","content":"b"},{"role":"user","content":"a"}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"1"}]}`, `{"model":"m","messages":[{"role":"user","content":1}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"\\u0041"}]}`, `{"model":"m","messages":[{"role":"user","content":"\\\u0041"}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"x-anthropic-billing-header: 1"}]}`, `{"model":"m","messages":[{"role":"user","content":"x-anthropic-billing-header: 2"}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAB"}}]}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":"x"}]}`, `{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":"y"}]}`, 1},
		{responsesPath, `{"model":"m","instructions":"S","input":"a"}`, `{"model":"m","instructions":"T","input":"a"}`, 0},
		{completionsPath, `{"model":"m","prompt":"` + strings.Repeat("a", 2048) + `"}`, `{"model":"m","prompt":"` + strings.Repeat("a", 1500) + "b" + strings.Repeat("a", 547) + `"}`, 2},
	} {
		a, b := prefixOf(t, c.path, c.a), prefixOf(t, c.path, c.b)
		if n := a.Common(b); n != c.common || b.Common(a) != n {
			t.Errorf("%d steps in common, want %d:\n%.200s\n%.200s", n, c.common, c.a, c.b)
		}
	}
	a, err := gateway.PrefixOf([]byte("another mesh's key"), chatPath, []byte(chat("m", "a", "")))
	if err != nil || a.Common(prefixOf(t, chatPath, chat("m", "a", ""))) != 0 {
		t.Error("two meshes have the same links")
	}
	if p := prefixOf(t, "/v1/embeddings", `{"model":"m","input":"a"}`); p.Steps() != 0 {
		t.Error("an embedding has a conversation")
	}
}

// TestATitleRequestIsNoTurnOfItsSession: opencode sends it with the session's own id, beside the first turn.
func TestATitleRequestIsNoTurnOfItsSession(t *testing.T) {
	main := prefixOf(t, chatPath, `{"model":"m","messages":[{"role":"system","content":"You are opencode."},{"role":"user","content":"fix it"}],"tools":[{}]}`)
	title := prefixOf(t, chatPath, `{"model":"m","messages":[{"role":"system","content":"You write titles."},{"role":"user","content":"Generate a title:"},{"role":"user","content":"fix it"}]}`)
	side := prefixOf(t, chatPath, `{"model":"m","messages":[{"role":"system","content":"You are opencode."},{"role":"user","content":"Generate a title: fix it"}],"tools":[{}]}`)
	if main.Common(title) != 0 || main.Common(side) != 1 {
		t.Errorf("%d and %d steps in common", main.Common(title), main.Common(side))
	}
	if gateway.Compacted(main, title) || gateway.Compacted(main, side) {
		t.Error("a side request passes for a rewritten history")
	}
}

// conversation writes the messages as a chat.
func conversation(system string, texts []string) string {
	messages := []map[string]string{{"role": "system", "content": system}}
	for i, s := range texts {
		messages = append(messages, map[string]string{"role": [2]string{"user", "assistant"}[i%2], "content": s})
	}
	b, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestCommonStepsAreThoseThatAreEqual, for random histories that branch off anywhere, up to where links are kept.
func TestCommonStepsAreThoseThatAreEqual(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + r.IntN(40)
		if r.IntN(10) == 0 {
			n += gateway.MaxLinks
		}
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprint(r.IntN(2), "\n\"<é")
		}
		fork := r.IntN(n + 1)
		if n > gateway.MaxHeads && fork > gateway.MaxHeads-1 && fork < n {
			fork = n // in between, the links are not kept
		}
		other := append(append([]string{}, texts[:fork]...), "other")
		a, b := prefixOf(t, chatPath, conversation("S", texts)), prefixOf(t, chatPath, conversation("S", other))
		if got := a.Common(b); got != fork+1 || b.Common(a) != got {
			t.Fatalf("%d messages, fork at %d: %d steps in common", n, fork, got)
		}
		if len(b.Links()) > gateway.MaxLinks {
			t.Fatalf("%d links", len(b.Links()))
		}
	}
}

// TestAnEndlessPromptIsBounded: neither its links nor what they cost grow without end, and its next turn is still found.
func TestAnEndlessPromptIsBounded(t *testing.T) {
	long := func(n int, more string) string {
		return `{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, n) + more + `{"role":"user","content":"z"}]}`
	}
	a := prefixOf(t, chatPath, long(10_000, ""))
	b := prefixOf(t, chatPath, long(10_000, `{"role":"user","content":"z"},`))
	if len(a.Links()) != gateway.MaxLinks || a.Steps() != 10_002 || a.Common(b) != 10_002 {
		t.Errorf("%d links, %d steps, %d in common", len(a.Links()), a.Steps(), a.Common(b))
	}
	huge := prefixOf(t, chatPath, long(100_000, ""))
	text, _ := huge.Whole()
	if huge.Steps() != gateway.MaxSteps || len(huge.Links()) != gateway.MaxLinks || text < 100_000 {
		t.Errorf("%d steps, %d links, %d bytes", huge.Steps(), len(huge.Links()), text)
	}
	deep := strings.Repeat(`[`, gateway.MaxDepth-3) + strings.Repeat(`]`, gateway.MaxDepth-3)
	if p := prefixOf(t, chatPath, `{"model":"m","messages":[{"content":`+deep+`}],"tools":`+deep+`}`); p.Steps() != 2 {
		t.Errorf("%d steps", p.Steps())
	}
	blocks := prefixOf(t, completionsPath, `{"model":"m","prompt":"`+strings.Repeat("a", (gateway.MaxSteps+10)*gateway.BlockBytes)+`"}`)
	if text, _ := blocks.Whole(); blocks.Steps() != gateway.MaxSteps || text != (gateway.MaxSteps+10)*gateway.BlockBytes {
		t.Errorf("%d steps, %d bytes", blocks.Steps(), text)
	}
}

// TestAPrefixTellsItsLength, up to each step; a picture is one part, whatever its size and however it comes.
func TestAPrefixTellsItsLength(t *testing.T) {
	picture := strings.Repeat("AAAA", 5000)
	for _, c := range []struct {
		path, body string
		data       int
	}{
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + picture + `","format":"wav"}}]}]}`, 1},
		{messagesPath, `{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + picture + `"}}]}]}`, 1},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"user","content":"` + picture + `"}]}`, 0},
	} {
		p := prefixOf(t, c.path, c.body)
		text, data := p.Whole()
		small := text < 200
		if data != c.data || small != (c.data == 1) {
			t.Errorf("%.80s: %d bytes, %d parts", c.body, text, data)
		}
		first, none := p.End(2)
		if none != 0 || first < len("hello") || first > 40 || p.Steps() != 3 {
			t.Errorf("%.80s: %d bytes, %d parts up to the first message", c.body, first, none)
		}
	}
	picturesque := prefixOf(t, completionsPath, `{"model":"m","prompt":"data:image/png;base64,`+picture+`"}`)
	if text, data := picturesque.Whole(); data != 0 || text < len(picture) {
		t.Errorf("a plain prompt is a picture: %d bytes, %d parts", text, data)
	}
	tokens := prefixOf(t, completionsPath, `{"model":"m","prompt":[1,22,333,4444]}`)
	if text, _ := tokens.Whole(); text != 16 {
		t.Errorf("four tokens count as %d bytes", text)
	}
}

func TestARewrittenHistoryIsRecognised(t *testing.T) {
	var long []string
	for i := range 40 {
		long = append(long, strings.Repeat(fmt.Sprint("turn ", i, " "), 200))
	}
	old := prefixOf(t, chatPath, conversation("S", long))
	for _, c := range []struct {
		name   string
		system string
		texts  []string
		want   bool
	}{
		{"a summary in its place", "S", []string{"Summary: " + strings.Repeat("x", 4000)}, true},
		{"a summary and the last turns", "S", append([]string{"Summary"}, long[36:]...), true},
		{"the next turn", "S", append(append([]string{}, long...), "next"), false},
		{"the same again", "S", long, false},
		{"the last message edited", "S", append(append([]string{}, long[:39]...), "edited"), false},
		{"another agent", "T", []string{"Summary"}, false},
		{"another history as long", "S", append([]string{"first"}, long[1:]...), false},
	} {
		if got := gateway.Compacted(old, prefixOf(t, chatPath, conversation(c.system, c.texts))); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if short := prefixOf(t, chatPath, conversation("S", long[:1])); gateway.Compacted(short, prefixOf(t, chatPath, conversation("S", []string{"x"}))) {
		t.Error("a first message has a history")
	}
}

// TestARequestKnowsItsPrefix under the mesh's key, and longer than its body is held.
func TestARequestKnowsItsPrefix(t *testing.T) {
	body := chat("m", "a", "")
	g := gateway.New(gateway.Config{Node: "one", SessionKey: func() []byte { return chainKey }})
	first, second, err := gateway.CallPrefix(g, chatPath, []byte(body))
	if want := prefixOf(t, chatPath, body); err != nil || first.Common(want) != 2 || second.Common(want) != 2 {
		t.Errorf("%v: %v and %v, want %v", err, first.Links(), second.Links(), want.Links())
	}
}

// FuzzPrefix: no body that scans makes trouble, and its links are the same however it is laid out and escaped.
func FuzzPrefix(f *testing.F) {
	for _, s := range []string{
		claudeTurn("1", "a", "b"), conversation("S", []string{"é\n", "\u2028<&>"}), `{"messages":[{"role":"system"},1,"x",null,[{}],{"content":{"content":[]}}]}`,
		`{"input":"a\ud83d","instructions":"x-anthropic-billing-header:\\n\n"}`, `{"prompt":["a",[1,2]],"input_extra":[{"text":"\/"}]}`, `{"messages":[{"r\u006fle":"system","c\"":"data:;base64,"}]}`,
		`{"system":{"a":1},"messages":{}}`, `{"messages":"x","input":7,"prompt":null}`, `{"system":[{"te\u0078t":"x","text":"x-anthropic-billing-header:\\"},"x-anthropic-billing-header:\n"]}`, `{"messages":[{"role":"user","content":"\u005c\u0075\\u0041\\\\"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var indented, escaped bytes.Buffer
		if json.Indent(&indented, body, " ", "\t") != nil {
			return
		}
		json.HTMLEscape(&escaped, body)
		for _, path := range []string{chatPath, messagesPath, responsesPath, completionsPath, infillPath} {
			p, err := gateway.PrefixOf(chainKey, path, body)
			if err != nil {
				return
			}
			if p.Steps() == 0 || len(p.Links()) > gateway.MaxLinks || p.Common(p) != p.Steps() {
				t.Fatalf("%s: %d steps, %d links", path, p.Steps(), len(p.Links()))
			}
			if sent, err := gateway.Edited(body, path, true); err != nil || !json.Valid(sent) {
				t.Fatalf("%s: of %q the engine gets %q: %v", path, body, sent, err)
			}
			for _, other := range []*bytes.Buffer{&indented, &escaped} {
				q, err := gateway.PrefixOf(chainKey, path, other.Bytes())
				if err != nil || q.Steps() != p.Steps() || p.Common(q) != p.Steps() {
					t.Fatalf("%s: %q and %q differ: %v", path, body, other, err)
				}
			}
		}
	})
}
