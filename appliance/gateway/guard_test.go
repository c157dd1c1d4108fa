package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/engine/enginetest"
)

func TestTheHostHeaderIsChecked(t *testing.T) {
	n := start(t, nil, func(c *gateway.Config) { c.Hosts = []string{"viiwork-attic.Tail1.ts.net."} })
	for host, want := range map[string]int{
		"127.0.0.1:8086": 200, "[::1]:8086": 200, "100.64.0.3": 200, "localhost:1": 200, "attic": 200, "attic.local": 200, "ATTIC.LOCAL:80": 200,
		"host.docker.internal:8086": 200, "viiwork-attic.tail1.ts.net": 200, "VIIWORK-attic.tail1.ts.net.:8086": 200,
		"evil.example": 421, "local": 200, "x.local.evil.example": 421, "127.0.0.1.evil.example": 421, "tail1.ts.net": 421,
	} {
		if r := n.do("GET", "/v1/models", "", "Host", host); r.status != want {
			t.Errorf("%s: %d", host, r.status)
		}
	}
}

func TestPagesOfOthersAreKeptOut(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL())).ready()
	own := n.url
	for _, c := range []struct {
		method, path, origin string
		want                 int
	}{
		{"POST", "/v1/chat/completions", "", 200}, {"POST", "/v1/chat/completions", own, 200}, {"POST", "/v1/chat/completions", "null", 403},
		{"POST", "/v1/chat/completions", "https://evil.example", 403}, {"GET", "/v1/models", "https://evil.example", 200}, {"POST", "/api/requests/x/cancel", "https://evil.example", 403},
	} {
		r := n.do(c.method, c.path, chat("m", "x", ""), "Origin", c.origin)
		if r.status != c.want || r.head.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: %d %v", c, r.status, r.head)
		}
	}
	r := n.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if r.status != 403 || r.head.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: %d %v", r.status, r.head)
	}
}

func TestAllowedPagesMayUseEverything(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL()), func(c *gateway.Config) {
		c.CORS = gateway.CORSConfig{AllowOrigins: []string{"https://app.example/"}, AllowTailnetIPs: true}
	}).ready()
	for origin, ok := range map[string]bool{"https://app.example": true, "http://100.100.1.2:3000": true, "http://[fd7a:115c:a1e0::1]": true, "http://app.example": false, "http://192.168.1.2": false, "http://100.128.0.1": false} {
		headers := "authorization, x-stainless-lang, x-session-affinity"
		r := n.do("OPTIONS", "/v1/chat/completions", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", headers)
		if ok && (r.status != 204 || r.head.Get("Access-Control-Allow-Origin") != origin || r.head.Get("Access-Control-Allow-Headers") != headers || !strings.Contains(r.head.Get("Access-Control-Allow-Methods"), "POST")) || !ok && r.status != 403 {
			t.Errorf("preflight of %s: %d %v", origin, r.status, r.head)
		}
		for _, body := range []string{chat("m", "x", ""), chat("m", "x", `,"stream":true`), chat("nope", "x", "")} {
			r := n.post("/v1/chat/completions", body, "Origin", origin)
			got := r.head.Get("Access-Control-Allow-Origin")
			if ok && (got != origin || !strings.Contains(strings.Join(r.head.Values("Vary"), ","), "Origin") || r.status == 403) || !ok && (got != "" || r.status != 403) {
				t.Errorf("%s: %d %v", origin, r.status, r.head)
			}
		}
	}
}

func TestSessionKeysHaveAnOrder(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL()), func(c *gateway.Config) { c.SessionHeaders = []string{"X-Libre-Chat"} }).ready()
	names := []string{"X-Session-Affinity", "X-Session-Id", "Session-Id", "session_id", "X-Claude-Code-Session-Id", "X-Opencode-Session", "Thread-Id", "X-Libre-Chat"}
	body := chat("m", "x", `,"prompt_cache_key":"k","metadata":{"user_id":"{\"session_id\":\"s\"}"}`)
	var head []string
	check := func(body, want string) {
		t.Helper()
		r := n.post("/v1/chat/completions", body, head...)
		if r.status != 200 || r.head.Get("X-Viiwork-Key") != want {
			t.Errorf("%d, key from %q, want %q", r.status, r.head.Get("X-Viiwork-Key"), want)
		}
		row, _ := n.g.Request(r.head.Get("X-Viiwork-Request-Id"))
		if row.KeySource != want || (want == "none") != (row.Session == "") || strings.Contains(row.Session, "secret") || want != "none" && len(row.Session) != 16 {
			t.Errorf("row %+v", row)
		}
	}
	check(chat("m", "x", `,"user":"u"`), "none")
	head = []string{"X-Libre-Chat", "secret"}
	check(chat("m", "x", ""), "X-Libre-Chat")
	check(chat("m", "x", `,"metadata":{"user_id":"{\"session_id\":\"s\"}"}`), "metadata.user_id")
	check(body, "prompt_cache_key")
	for i := len(names) - 2; i >= 0; i-- {
		head = append(head, names[i], "secret")
		check(body, names[i])
	}
	head = []string{"X-Session-Id", strings.Repeat("x", 257), "Thread-Id", "\xffx"}
	check(body, "prompt_cache_key")
	head = []string{"X-Session-Id", strings.Repeat("x", 256)}
	check(body, "X-Session-Id")
}

func TestAConversationComesHome(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 4})
	two := model("m", 1, f.URL())
	two[0].Backends = append(two[0].Backends, two[0].Backends[0])
	n := start(t, two).ready()
	home := n.post("/v1/chat/completions", chat("m", "x", ""), "X-Session-Id", "a")
	if home.head.Get("X-Viiwork-Route") != "cold" {
		t.Errorf("first turn: %v", home.head)
	}
	for range 5 {
		r := n.post("/v1/chat/completions", chat("m", "x", ""), "X-Session-Id", "a")
		if r.head.Get("X-Viiwork-Route") != "home" || r.head.Get("X-Viiwork-Backend") != home.head.Get("X-Viiwork-Backend") {
			t.Errorf("later turn: %v", r.head)
		}
	}
	if r := n.post("/v1/chat/completions?host=one", chat("m", "x", "")); r.head.Get("X-Viiwork-Route") != "pinned" {
		t.Errorf("pinned: %v", r.head)
	}
}

func TestModelsAreListedReadyOrNot(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2, Context: 4096})
	later := fake(t, enginetest.Options{})
	later.SetLoading(true)
	n := start(t, append(model("org/m", 2, f.URL()), model("later", 1, later.URL())...))
	n.until("org/m ready", func() bool { return n.e.Snapshot()[0].Backends[0].State == "ready" })
	doc := n.do("GET", "/v1/models", "").json(t)
	if at(doc, "object") != "list" || at(doc, "data", 0, "id") != "org/m" || at(doc, "data", 1, "id") != "later" {
		t.Fatalf("%v", doc)
	}
	if at(doc, "data", 0, "context_length") != 4096.0 || at(doc, "data", 0, "viiwork", "free") != 2.0 || at(doc, "data", 0, "viiwork", "hosts", 0, "node") != "one" || at(doc, "data", 0, "viiwork", "state") != "ready" {
		t.Errorf("%v", at(doc, "data", 0))
	}
	if at(doc, "data", 1, "viiwork", "free") != nil || at(doc, "data", 1, "viiwork", "state") == "ready" || at(doc, "data", 1, "context_length") != 8192.0 {
		t.Errorf("%v", at(doc, "data", 1))
	}
	for _, path := range []string{"/v1/models/org/m", "/v1/models/org%2Fm"} {
		if r := n.do("GET", path, ""); r.status != 200 || at(r.json(t), "id") != "org/m" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	wantError(t, n.do("GET", "/v1/models/org%2Fn", ""), false, 404, "invalid_request_error", "model_not_found")
}

func TestProbesAreAnswered(t *testing.T) {
	n := start(t, nil)
	if r := n.do("HEAD", "/", ""); r.status != 200 {
		t.Errorf("HEAD /: %d", r.status)
	}
	if r := n.do("GET", "/", ""); r.status != 200 || !strings.Contains(string(r.body), "viiwork") {
		t.Errorf("GET /: %d", r.status)
	}
}

func TestRequestsAreListedAndBounded(t *testing.T) {
	n := start(t, nil)
	for range gateway.Rows + 20 {
		n.post("/v1/chat/completions", chat("nope", "secret words", ""))
	}
	rows := n.g.Requests(1 << 30)
	if len(rows) != gateway.Rows {
		t.Fatalf("%d rows", len(rows))
	}
	r := n.do("GET", "/api/requests?n=2", "")
	if at(r.json0(t), 0, "id") != rows[0].ID || at(r.json0(t), 2) != nil || strings.Contains(string(r.body), "secret") {
		t.Errorf("%s", r.body)
	}
	if r := n.do("GET", "/api/requests/"+rows[5].ID, ""); at(r.json(t), "status") != 404.0 || at(r.json(t), "ttft_ms") != nil {
		t.Errorf("%s", r.body)
	}
	wantError(t, n.do("GET", "/api/requests/none", ""), false, 404, "invalid_request_error", "request_not_found")
	wantError(t, n.do("GET", "/api/requests?n=x", ""), false, 400, "invalid_request_error", "")
	if _, ok := n.g.Request("none"); ok || n.g.Cancel("none") {
		t.Error("a request that never was")
	}
}

func TestOnlyTheTrustedCancel(t *testing.T) {
	n := start(t, nil, func(c *gateway.Config) { c.Trusted = nil })
	wantError(t, n.post("/api/requests/x/cancel", ""), false, 403, "permission_error", "not_trusted")
}

func TestPanicsAreAnswered(t *testing.T) {
	g := gateway.New(gateway.Config{Node: "one"})
	e := echo.New()
	g.Mount(e)
	e.GET("/panic", func(echo.Context) error { panic("secret") })
	e.GET("/cut", func(c echo.Context) error { _ = c.String(200, "half"); panic("secret") })
	srv := httptest.NewServer(e)
	defer srv.Close()
	n := &node{t: t, url: srv.URL, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	r := n.do("GET", "/panic", "")
	wantError(t, r, false, 500, "server_error", "internal_error")
	if strings.Contains(string(r.body), "secret") {
		t.Errorf("%s", r.body)
	}
	if r := n.do("GET", "/cut", ""); r.err == nil {
		t.Errorf("an answer that was cut looks complete: %s", r.body)
	}
}

func TestTheNearestNameIsMeant(t *testing.T) {
	names := []string{"Qwen3.8-27B", "org/m", "llama"}
	for want, got := range map[string]string{"qwen3.8-27b": "Qwen3.8-27B", "0rg/m": "org/m", "lama": "llama", "something-else-entirely": "", "": ""} {
		if n := gateway.Nearest(want, names); n != got {
			t.Errorf("%q: %q, want %q", want, n, got)
		}
	}
}
