package gateway_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/engine/enginetest"
)

// keySources are where a session key may stand, in the order in which they count.
var keySources = []string{"X-Session-Affinity", "X-Session-Id", "Session-Id", "session_id", "X-Claude-Code-Session-Id", "X-Opencode-Session", "Thread-Id",
	"prompt_cache_key", "metadata.user_id", "X-Chat-Id", "X-Other"}

// keyed is a request with a key in each of the places given.
func keyed(places []string, key func(place string) string) (http.Header, []byte) {
	h, body := http.Header{}, map[string]any{"model": "m", "user": "a person", "safety_identifier": "a person"}
	for _, p := range places {
		switch p {
		case "prompt_cache_key":
			body[p] = key(p)
		case "metadata.user_id":
			id, _ := json.Marshal(map[string]string{"device_id": "d", "session_id": key(p)})
			body["metadata"] = map[string]string{"user_id": string(id)}
		default:
			h.Set(p, key(p))
		}
	}
	b, _ := json.Marshal(body)
	return h, b
}

func keyGateway(t testing.TB, change ...func(*gateway.Config)) *gateway.Gateway {
	cfg := gateway.Config{Node: "one", SessionHeaders: []string{"X-Chat-Id", "X-Other"}}
	for _, c := range change {
		c(&cfg)
	}
	return gateway.New(cfg)
}

// TestTheFirstSessionKeyCounts, for each place with all that come after it; a key that cannot be one is as if it were absent.
func TestTheFirstSessionKeyCounts(t *testing.T) {
	g := keyGateway(t)
	name := func(p string) string { return "key of " + p }
	for i, first := range keySources {
		h, body := keyed(keySources[i:], name)
		if key, source, err := gateway.SessionKey(g, h, body); err != nil || key != name(first) || source != first {
			t.Errorf("%q from %q, want that of %s (%v)", key, source, first, err)
		}
		for _, bad := range []string{"", strings.Repeat("k", 257), "a\tb", "a\x00", "a\x7f", "schlüssel", strings.Repeat("k", 1<<20)} {
			h, body := keyed(keySources[i:], func(p string) string {
				if p == first {
					return bad
				}
				return name(p)
			})
			want, from := "", "none"
			if i+1 < len(keySources) {
				from = keySources[i+1]
				want = name(from)
			}
			if key, source, err := gateway.SessionKey(g, h, body); err != nil || key != want || source != from {
				t.Errorf("%.20q as %s: %q from %q, want that of %s (%v)", bad, first, key, source, from, err)
			}
		}
	}
	longest := strings.Repeat("~", 256)
	h, body := keyed(keySources[7:8], func(string) string { return longest })
	if key, _, _ := gateway.SessionKey(g, h, body); key != longest {
		t.Error("a key of 256 bytes is not taken")
	}
}

func TestWhatIsNoSessionKeyIsIgnored(t *testing.T) {
	g := keyGateway(t)
	for _, c := range []struct{ body, key, source string }{
		{`{"prompt_cache_key":7}`, "", "none"},
		{`{"prompt_cache_key":null,"metadata":{"user_id":null}}`, "", "none"},
		{`{"prompt_cache_key":"\u006bey"}`, "key", "prompt_cache_key"},
		{`{"prompt_cache_key":"a","prompt_cache_key":"b"}`, "b", "prompt_cache_key"},
		{`{"x":{"prompt_cache_key":"a"}}`, "", "none"},
		{`{"metadata":{"user_id":"just a person"}}`, "", "none"},
		{`{"metadata":{"user_id":"user_9f_account_1_session_0ae4-11"}}`, "0ae4-11", "metadata.user_id"},
		{`{"metadata":{"user_id":"{\"session_id\":7}"}}`, "", "none"},
		{`{"metadata":["user_id"]}`, "", "none"},
		{`{"metadata":{"user_id":"{\"session_id\":\"s\"}","pad":"` + strings.Repeat("x", 20<<10) + `"}}`, "", "none"},
		{`{"user":"u","safety_identifier":"s"}`, "", "none"},
	} {
		if key, source, err := gateway.SessionKey(g, http.Header{}, []byte(c.body)); err != nil || key != c.key || source != c.source {
			t.Errorf("%.80s: %q from %q (%v)", c.body, key, source, err)
		}
	}
}

// TestASessionsDigest is the same wherever the mesh's key is, another one without it, and tells keys apart that look alike.
func TestASessionsDigest(t *testing.T) {
	with := func(key string) *gateway.Gateway {
		return keyGateway(t, func(c *gateway.Config) { c.SessionKey = func() []byte { return []byte(key) } })
	}
	a, b, other, alone, lone := with("mesh key"), with("mesh key"), with("another"), keyGateway(t), with("")
	d := gateway.SessionDigest(a, "Key")
	if d != gateway.SessionDigest(b, "Key") || len(d) != 16 || strings.Contains(d, "Key") {
		t.Errorf("%q and %q", d, gateway.SessionDigest(b, "Key"))
	}
	all := []string{d, gateway.SessionDigest(a, "key"), gateway.SessionDigest(a, "Key "), gateway.SessionDigest(other, "Key"), gateway.SessionDigest(alone, "Key"), gateway.SessionDigest(lone, "Key"), gateway.SessionDigest(keyGateway(t), "Key")}
	slices.Sort(all)
	if len(slices.Compact(all)) != 7 {
		t.Errorf("digests are the same: %v", all)
	}
	if gateway.SessionDigest(a, "") != "" {
		t.Error("no key has a digest")
	}
}

// TestOneKeyForTwoModelsIsTwoHomes: a conversation may change its model, and one key may be used for many.
func TestOneKeyForTwoModelsIsTwoHomes(t *testing.T) {
	f, g := fake(t, enginetest.Options{Slots: 2, Model: "a"}), fake(t, enginetest.Options{Slots: 2, Model: "b"})
	n := start(t, append(model("a", 2, f.URL()), model("b", 2, g.URL())...)).ready()
	for i := range 4 {
		name := [2]string{"a", "b"}[i%2]
		r := n.post("/v1/chat/completions", chat(name, "hi", ""), "X-Session-Id", "one")
		if r.status != 200 || r.head.Get("X-Viiwork-Model") != name || r.head.Get("X-Viiwork-Key") != "X-Session-Id" {
			t.Fatalf("%d %v %s", r.status, r.head, r.body)
		}
		if route := r.head.Get("X-Viiwork-Route"); (i >= 2) != (route == "home") {
			t.Errorf("request %d for %s: %s", i, name, route)
		}
	}
}

// FuzzSessionKey: whatever headers and bodies hold, a key is short and printable, and bodies that encoding/json reads otherwise
// are not read here.
func FuzzSessionKey(f *testing.F) {
	for i := range keySources {
		h, body := keyed(keySources[i:], func(p string) string { return p })
		f.Add(h.Get("X-Session-Id"), h.Get("Thread-Id"), body)
	}
	f.Add("a\x01", strings.Repeat("k", 300), []byte(`{"prompt_cache_key":"\ud800","metadata":{"user_id":"user__session_"}}`))
	g := keyGateway(f)
	f.Fuzz(func(t *testing.T, first, last string, body []byte) {
		h := http.Header{"X-Session-Id": {first}, "Thread-Id": {last}}
		key, source, err := gateway.SessionKey(g, h, body)
		if err != nil {
			return
		}
		if (key == "") != (source == "none") || len(key) > 256 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q from %s", key, source)
		}
		if source != "prompt_cache_key" {
			return
		}
		var members map[string]json.RawMessage
		_ = json.Unmarshal(body, &members)
		var text string
		if json.Unmarshal(members[source], &text) != nil || text != key {
			t.Fatalf("%q, encoding/json reads %s", key, members[source])
		}
	})
}
