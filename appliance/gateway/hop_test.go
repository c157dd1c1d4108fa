package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

// TestNothingForgedReachesTheEngine: every way in which a forward can be wrong is a 403 in the API's shape, and the
// engine never hears of it.
func TestNothingForgedReachesTheEngine(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 4})
	fl := newFleet(t, nil, spec{}, spec{models: model("m", 4, f.URL())})
	a, b := fl.peers[0], fl.peers[1]
	body := chat("m", "hi", "")
	sign := func(s *mesh.Signer, to string) func(*http.Request) {
		return func(r *http.Request) { s.Sign(r, to, sha256.Sum256([]byte(body))) }
	}
	stranger := mesh.NewSigner(mesh.SignerConfig{ID: a.ID, Keys: meshKeys(t, []byte(strings.Repeat("x", 32)))})
	open := mesh.NewSigner(mesh.SignerConfig{ID: a.ID, Keys: meshKeys(t, nil)})
	late := mesh.NewSigner(mesh.SignerConfig{ID: a.ID, Keys: fl.keys, Now: func() time.Time { return time.Now().Add(-5 * time.Minute) }})
	before := asked(f, "")
	for _, c := range []struct {
		name, code string
		change     func(*http.Request)
	}{
		{"another secret", "bad_signature", sign(stranger, b.ID)},
		{"an open mesh's", "open_mesh", sign(open, b.ID)},
		{"meant for another", "wrong_receiver", sign(a.signer, "id-c")},
		{"five minutes old", "clock", sign(late, b.ID)},
		{"two hop marks", "two_hops", func(r *http.Request) { r.Header.Add("X-Viiwork-Hop", "1"); sign(a.signer, b.ID)(r) }},
		{"a hop mark without a signature", "malformed", func(r *http.Request) { r.Header.Del("X-Viiwork-Signature") }},
		{"only a hop mark", "malformed", func(r *http.Request) { r.Header = http.Header{"X-Viiwork-Hop": {"1"}} }},
		{"a header added", "bad_signature", func(r *http.Request) { r.Header.Set("X-Viiwork-Task", "other") }},
		{"another path", "bad_signature", func(r *http.Request) { r.URL.Path = "/v1/completions" }},
		{"another query", "bad_signature", func(r *http.Request) { r.URL.RawQuery = "host=a" }},
		{"another body", "body_digest", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Replace(body, "hi", "ho", 1))) }},
		{"a cut body", "body_digest", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body[:len(body)-1])), int64(len(body)-1)
		}},
		{"a body without end", "body_digest", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(io.LimitReader(spaces{}, 1<<20)), -1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, a.forward(b, "/v1/chat/completions", body, c.change), false, 403, "permission_error", c.code)
			wantError(t, a.forward(b, "/v1/messages", body, func(r *http.Request) { sign(stranger, b.ID)(r) }), true, 403, "", "")
		})
	}
	var wire *http.Request
	ok := a.forward(b, "/v1/chat/completions", body, func(r *http.Request) { wire = r.Clone(t.Context()) })
	if ok.status != 200 || ok.head.Get("X-Viiwork-Node") != "b" {
		t.Fatalf("an honest forward: %d %s", ok.status, ok.body)
	}
	wire.Body = io.NopCloser(strings.NewReader(body))
	wantError(t, a.send(wire), false, 403, "permission_error", "replayed")
	if n := asked(f, "") - before; n != 1 {
		t.Errorf("%d requests reached the engine", n)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// TestAForwardedRequestNeverQueues: a node without a free slot refuses at once, and says how it stands; what it could
// pass on to others, it does not.
func TestAForwardedRequestNeverQueues(t *testing.T) {
	t.Parallel()
	f, other := fake(t, enginetest.Options{Slots: 1, DecodeTPS: 20}), fake(t, enginetest.Options{Slots: 4})
	fl := newFleet(t, nil, spec{models: model("m", 4, other.URL())}, spec{models: model("m", 1, f.URL()), change: func(c *gateway.Config) { c.QueueTimeout = 24 * time.Hour }})
	a, b := fl.peers[0], fl.peers[1]
	gone := b.leaving("/v1/chat/completions", long("m", "busy")+`,"stream":true}`, "busy")
	defer gone()
	b.row("busy", "generating")
	before := asked(other, "")
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		r := a.forward(b, path, ask(path, "m", ""), nil)
		if r.status != 429 || r.head.Get("Retry-After") == "" || r.head.Get("X-Viiwork-Free") != "0" || r.head.Get("X-Viiwork-Slots") != "1" {
			t.Errorf("%s: %d %v %s", path, r.status, r.head, r.body)
		}
	}
	wantError(t, a.forward(b, "/v1/chat/completions", chat("elsewhere", "hi", ""), nil), false, 404, "invalid_request_error", "model_not_found")
	if asked(other, "") != before {
		t.Error("a forwarded request was passed on")
	}
	// A long body is refused before it is sent.
	big := chat("m", strings.Repeat("x", 1<<20), "")
	sent := &counting{r: strings.NewReader(big)}
	r := a.forward(b, "/v1/chat/completions", big, func(r *http.Request) {
		r.Header.Set("Expect", "100-continue")
		r.Header.Set("X-Viiwork-Model", "m")
		a.signer.Sign(r, b.ID, sha256.Sum256([]byte(big)))
		r.Body, r.ContentLength = sent, int64(len(big))
		a.client.Transport.(*http.Transport).ExpectContinueTimeout = 10 * time.Second
	})
	if r.status != 429 || sent.n != 0 {
		t.Errorf("%d after %d bytes", r.status, sent.n)
	}
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
func (c *counting) Close() error { return nil }

// TestMarksOfMembersMeanNothingToANodeAlone: without a mesh they are headers like others.
func TestMarksOfMembersMeanNothingToANodeAlone(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL())).ready()
	r := n.post("/v1/chat/completions", chat("m", "hi", ""), "X-Viiwork-Hop", "1", "X-Viiwork-Origin", "x", "X-Viiwork-Request-Id", "0123456789abcdef", "X-Viiwork-Route", "pinned")
	if r.status != 200 || r.head.Get("X-Viiwork-Origin") != "one" || r.head.Get("X-Viiwork-Request-Id") == "0123456789abcdef" || r.head.Get("X-Viiwork-Route") != "only" {
		t.Errorf("%d %v", r.status, r.head)
	}
}

// TestAClientCannotSpeakForAMember: what it writes into our headers does not go any further.
func TestAClientCannotSpeakForAMember(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	fl := newFleet(t, nil, spec{}, spec{models: model("m", 1, f.URL())})
	r := fl.peers[0].post("/v1/chat/completions", chat("m", "hi", ""), "X-Viiwork-Origin", "x", "X-Viiwork-Request-Id", "0123456789abcdef", "X-Viiwork-Route", "pinned", "X-Viiwork-Time", "1")
	if r.status != 200 || r.head.Get("X-Viiwork-Origin") != "a" || r.head.Get("X-Viiwork-Request-Id") == "0123456789abcdef" || r.head.Get("X-Viiwork-Route") != "only" {
		t.Errorf("%d %v %s", r.status, r.head, r.body)
	}
	wantError(t, fl.peers[0].post("/v1/chat/completions", chat("m", "hi", ""), "X-Viiwork-Hop", "1"), false, 403, "permission_error", "malformed")
	for _, s := range f.Requests() {
		for name := range s.Header {
			if strings.HasPrefix(name, "X-Viiwork-") {
				t.Errorf("the engine was sent %s", name)
			}
		}
	}
}

// TestAClockThatIsOffIsCorrected: an honest member five minutes off is refused once, told the time, and answered.
func TestAClockThatIsOffIsCorrected(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1})
	fl := newFleet(t, nil, spec{}, spec{models: model("m", 1, f.URL())})
	a, b := fl.peers[0], fl.peers[1]
	late := mesh.NewSigner(mesh.SignerConfig{ID: a.ID, Keys: fl.keys, Now: func() time.Time { return time.Now().Add(-5 * time.Minute) }})
	client := mesh.NewClient(mesh.ClientConfig{Signer: late, Dial: dialLoopback})
	defer client.Close()
	resp, err := client.Forward(t.Context(), b.Member, mesh.Forward{Path: "/v1/chat/completions", Body: []byte(chat("m", "hi", ""))})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || late.Skew(b.ID) < 4*time.Minute {
		t.Errorf("%d %s; skew %v", resp.StatusCode, text, late.Skew(b.ID))
	}
}
