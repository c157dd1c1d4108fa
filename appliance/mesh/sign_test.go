package mesh_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// arrived is req as the receiver's server reads it off the wire.
func arrived(t testing.TB, req *http.Request) *http.Request {
	t.Helper()
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		t.Fatal(err)
	}
	return read(t, wire.String())
}

func read(t testing.TB, wire string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	got, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
	if err != nil {
		t.Fatal(err)
	}
	got.RemoteAddr = r.RemoteAddr
	return got
}

func signedRequest(t testing.TB, s *mesh.Signer, to, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://10.0.0.2:8086/v1/chat%2Fx/completions?a=1&b=%20", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Viiwork-Session", "s1")
	req.Header["X-Viiwork-Task"] = []string{"one", "two"}
	req.Header["X-Viiwork-Za"] = []string{"1", "X-Viiwork-Zb"}
	req.Header["X-Viiwork-Zc"] = []string{"3"}
	req.Header.Set("X-Viiwork-Hop", "1")
	s.Sign(req, to, sha256.Sum256([]byte(body)))
	return req
}

func ends(t testing.TB, k *mesh.Keyring) (*mesh.Signer, *mesh.Verifier) {
	return mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: k}), mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k})
}

func code(err error) string {
	var refused *mesh.Refusal
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

func TestSignedRequestPassesOnce(t *testing.T) {
	s, v := ends(t, keys(t, mesh.KeyConfig{Secret: secret}))
	r := arrived(t, signedRequest(t, s, "n02", "hello"))
	peer, err := v.Check(r)
	if err != nil || peer.ID != "n01" || !peer.Forwarded || peer.Wire != mesh.Wire {
		t.Fatalf("got %+v, %v", peer, err)
	}
	if body, err := io.ReadAll(peer.VerifyBody(r.Body)); err != nil || string(body) != "hello" {
		t.Fatalf("body %q, %v", body, err)
	}
	if _, err := v.Check(r); code(err) != "replayed" {
		t.Fatalf("replayed: %v", err)
	}
}

func TestTamperedRequestIsRefused(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	for name, tamper := range map[string]func(*http.Request){
		"method":        func(r *http.Request) { r.Method = http.MethodPut },
		"path":          func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/v1/chat/completions", "" },
		"path encoding": func(r *http.Request) { r.URL.RawPath = "" },
		"query":         func(r *http.Request) { r.URL.RawQuery = "a=2&b=%20" },
		"query dropped": func(r *http.Request) { r.URL.RawQuery = "" },
		"sender":        func(r *http.Request) { r.Header.Set("X-Viiwork-From", "n03") },
		"receiver":      func(r *http.Request) { r.Header.Set("X-Viiwork-To", "n03") },
		"session":       func(r *http.Request) { r.Header.Set("X-Viiwork-Session", "s2") },
		"value moved":   func(r *http.Request) { r.Header["X-Viiwork-Task"] = []string{"onetwo"} },
		"value order":   func(r *http.Request) { r.Header["X-Viiwork-Task"] = []string{"two", "one"} },
		"value made a header": func(r *http.Request) {
			delete(r.Header, "X-Viiwork-Zc")
			r.Header["X-Viiwork-Za"], r.Header["X-Viiwork-Zb"] = []string{"1"}, []string{"X-Viiwork-Zc", "3"}
		},
		"header added":   func(r *http.Request) { r.Header.Set("X-Viiwork-Lease", "l") },
		"header removed": func(r *http.Request) { r.Header.Del("X-Viiwork-Session") },
		"hop removed":    func(r *http.Request) { r.Header.Del("X-Viiwork-Hop") },
		"time": func(r *http.Request) {
			r.Header.Set("X-Viiwork-Time", fmt.Sprint(time.Now().Add(time.Second).UnixMilli()))
		},
		"nonce":     func(r *http.Request) { r.Header.Set("X-Viiwork-Nonce", strings.Repeat("A", 22)) },
		"digest":    func(r *http.Request) { r.Header.Set("X-Viiwork-Digest", strings.Repeat("A", 43)) },
		"wire":      func(r *http.Request) { r.Header.Set("X-Viiwork-Wire", "1") },
		"signature": func(r *http.Request) { r.Header.Set("X-Viiwork-Signature", strings.Repeat("A", 43)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, v := ends(t, k)
			r := arrived(t, signedRequest(t, s, "n02", "hello"))
			tamper(r)
			if _, err := v.Check(r); code(err) != "bad_signature" {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestMalformedSignatureHeadersAreRefused(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	for name, spoil := range map[string]func(http.Header){
		"no time":        func(h http.Header) { h.Del("X-Viiwork-Time") },
		"two senders":    func(h http.Header) { h.Add("X-Viiwork-From", "n03") },
		"two receivers":  func(h http.Header) { h.Add("X-Viiwork-To", "n02") },
		"strange sender": func(h http.Header) { h.Set("X-Viiwork-From", "n0 1") },
		"long sender":    func(h http.Header) { h.Set("X-Viiwork-From", strings.Repeat("a", 129)) },
		"signed time":    func(h http.Header) { h.Set("X-Viiwork-Time", "+1700000000000") },
		"short nonce":    func(h http.Header) { h.Set("X-Viiwork-Nonce", "AAAA") },
		"hop of two":     func(h http.Header) { h.Set("X-Viiwork-Hop", "2") },
		"many headers": func(h http.Header) {
			for i := range 100 {
				h.Set(fmt.Sprintf("X-Viiwork-A%d", i), "x")
			}
		},
		"hop alone": func(h http.Header) { clear(h); h.Set("X-Viiwork-Hop", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			s, v := ends(t, k)
			r := arrived(t, signedRequest(t, s, "n02", ""))
			spoil(r.Header)
			if _, err := v.Check(r); code(err) != "malformed" {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestTwoHopMarksAreRefused(t *testing.T) {
	s, v := ends(t, keys(t, mesh.KeyConfig{Secret: secret}))
	req := signedRequest(t, s, "n02", "")
	req.Header["X-Viiwork-Hop"] = []string{"1", "1"}
	s.Sign(req, "n02", sha256.Sum256(nil))
	if _, err := v.Check(arrived(t, req)); code(err) != "two_hops" {
		t.Fatalf("got %v", err)
	}
}

func TestRequestRedirectedToAnotherNodeIsRefused(t *testing.T) {
	s, v := ends(t, keys(t, mesh.KeyConfig{Secret: secret}))
	if _, err := v.Check(arrived(t, signedRequest(t, s, "n03", ""))); code(err) != "wrong_receiver" {
		t.Fatalf("got %v", err)
	}
}

func TestBodyOtherThanSignedNeverEndsWell(t *testing.T) {
	for _, body := range []string{"hellO", "hell", "hello!", ""} {
		s, v := ends(t, keys(t, mesh.KeyConfig{Secret: secret}))
		peer, err := v.Check(arrived(t, signedRequest(t, s, "n02", "hello")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(peer.VerifyBody(strings.NewReader(body))); !errors.Is(err, mesh.ErrBodyDigest) {
			t.Errorf("body %q: %v", body, err)
		}
	}
}

func TestUnsignedRequestIsNoMembers(t *testing.T) {
	_, v := ends(t, keys(t, mesh.KeyConfig{}))
	r := httptest.NewRequest(http.MethodGet, "/v1/capacity", nil)
	r.Header.Set("X-Viiwork-Task", "mine")
	if mesh.FromMember(r) {
		t.Error("a client's task label makes it a member")
	}
	if _, err := v.Check(r); code(err) != "unsigned" {
		t.Fatalf("got %v", err)
	}
}

func TestSecretsDecideWhoIsHeard(t *testing.T) {
	other := []byte("fedcba9876543210fedcba9876543210")
	of := func(c mesh.KeyConfig) *mesh.Keyring { return keys(t, c) }
	open := of(mesh.KeyConfig{})
	full := of(mesh.KeyConfig{Secret: secret})
	for name, c := range map[string]struct {
		from, to *mesh.Keyring
		want     string // "" = heard
	}{
		"same secret":                 {full, full, ""},
		"another secret":              {of(mesh.KeyConfig{Secret: other}), full, "bad_signature"},
		"open to open":                {open, open, ""},
		"open to secured":             {open, full, "open_mesh"},
		"secured to open":             {full, open, "bad_signature"},
		"previous secret":             {of(mesh.KeyConfig{Secret: other}), of(mesh.KeyConfig{Secret: secret, Prev: other}), ""},
		"none to open":                {of(mesh.KeyConfig{Secret: secret, Enforce: "none"}), open, ""},
		"open to none":                {open, of(mesh.KeyConfig{Secret: secret, Enforce: "none"}), ""},
		"outgoing to none":            {of(mesh.KeyConfig{Secret: secret, Enforce: "outgoing"}), of(mesh.KeyConfig{Secret: secret, Enforce: "none"}), ""},
		"none to outgoing":            {of(mesh.KeyConfig{Secret: secret, Enforce: "none"}), of(mesh.KeyConfig{Secret: secret, Enforce: "outgoing"}), ""},
		"outgoing to full":            {of(mesh.KeyConfig{Secret: secret, Enforce: "outgoing"}), full, ""},
		"full to outgoing":            {full, of(mesh.KeyConfig{Secret: secret, Enforce: "outgoing"}), ""},
		"none to full skips the step": {of(mesh.KeyConfig{Secret: secret, Enforce: "none"}), full, "open_mesh"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: c.from})
			v := mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: c.to})
			_, err := v.Check(arrived(t, signedRequest(t, s, "n02", "")))
			if got := code(err); err != nil && got != c.want || err == nil && c.want != "" {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestBadKeysAreNamed(t *testing.T) {
	for name, cfg := range map[string]mesh.KeyConfig{
		"short":         {Secret: secret[:31]},
		"short before":  {Secret: secret, Prev: secret[:1]},
		"only before":   {Prev: secret},
		"unknown steps": {Secret: secret, Enforce: "maybe"},
	} {
		if _, err := mesh.NewKeys(cfg); err == nil || strings.Contains(err.Error(), string(secret[:31])) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	ring := keys(t, mesh.KeyConfig{Secret: secret, Prev: secret})
	k := ring.Load()
	j := mesh.JoinCode{Network: "lan", Secret: secret}
	plain := fmt.Sprintf("%v", secret[:4])
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, s := range []string{fmt.Sprintf(verb, k), fmt.Sprintf(verb, ring), fmt.Sprintf(verb, j), fmt.Sprintf(verb, &j)} {
			if strings.Contains(s, "0123") || strings.Contains(s, strings.Trim(plain, "[]")) || len(s) > 20 {
				t.Errorf("%s prints %s", verb, s)
			}
		}
	}
	if g := k.Gossip(); len(g) != 2 || len(g[0]) != 32 || bytes.Equal(g[0], secret) {
		t.Errorf("gossip keys: %d", len(g))
	}
	if keys(t, mesh.KeyConfig{}).Load().Gossip() != nil {
		t.Error("an open mesh encrypts its gossip")
	}
}
