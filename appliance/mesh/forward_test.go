package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// receiver is a node behind a real server, which answers forwards with what it got.
type receiver struct {
	mesh.Member
	ran  atomic.Int32
	last atomic.Pointer[http.Request]
}

func receive(t *testing.T, v *mesh.Verifier) *receiver {
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		peer, err := v.Check(req)
		if err != nil {
			mesh.WriteRefusal(w, err)
			return
		}
		body, err := io.ReadAll(peer.VerifyBody(req.Body))
		if err != nil || !peer.Forwarded {
			http.Error(w, "bad", 400)
			return
		}
		r.ran.Add(1)
		r.last.Store(req)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	r.Member = member(2)
	r.Addr = server.Listener.Addr().String()
	return r
}

func client(t *testing.T, cfg mesh.SignerConfig) *mesh.Client {
	c := mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(cfg), Dial: (&net.Dialer{}).DialContext})
	t.Cleanup(c.Close)
	return c
}

func TestForwardCarriesTheRequest(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	r := receive(t, mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k}))
	c := client(t, mesh.SignerConfig{ID: "n01", Keys: k})
	header := http.Header{"Content-Type": {"application/json"}, "X-Viiwork-Session": {"s"}, "Idempotency-Key": {"k"}}
	for _, size := range []int{0, 10, 300 << 10, 5 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		resp, err := c.Forward(t.Context(), r.Member, mesh.Forward{Path: "/v1/a%2Fb", Query: "q=1", Header: header, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		req := r.last.Load()
		if resp.StatusCode != 200 || !bytes.Equal(got, body) || req.RequestURI != "/v1/a%2Fb?q=1" || req.Header.Get("X-Viiwork-Session") != "s" || req.Header.Get("Idempotency-Key") != "" {
			t.Fatalf("%d bytes: %d %s %v", size, resp.StatusCode, req.RequestURI, req.Header)
		}
	}
	if header.Get("X-Viiwork-Signature") != "" || header.Get("Idempotency-Key") != "k" {
		t.Error("the caller's header was changed")
	}
}

func TestForwardHappensOnce(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	r := receive(t, mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k}))
	c := client(t, mesh.SignerConfig{ID: "n01", Keys: k})
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			resp, err := c.Forward(t.Context(), r.Member, mesh.Forward{Path: "/v1/x", Body: []byte("b")})
			if err != nil || resp.StatusCode != 200 {
				t.Error(resp, err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	if n := r.ran.Load(); n != 200 {
		t.Fatalf("%d ran of 200", n)
	}
}

// TestForwardIsNotRepeatedByTheTransport breaks a kept connection after the second request was read: the point at
// which HTTP libraries like to try again by themselves.
func TestForwardIsNotRepeatedByTheTransport(t *testing.T) {
	var seen atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if seen.Add(1) > 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}
	}))
	defer server.Close()
	m := member(2)
	m.Addr = server.Listener.Addr().String()
	c := client(t, mesh.SignerConfig{ID: "n01", Keys: keys(t, mesh.KeyConfig{})})
	f := mesh.Forward{Path: "/v1/x", Body: []byte("b"), Header: http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}}
	resp, err := c.Forward(t.Context(), m, f)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if _, err := c.Forward(t.Context(), m, f); err == nil || errors.Is(err, mesh.ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if n := seen.Load(); n != 2 {
		t.Fatalf("the server saw %d requests, want 2", n)
	}
}

func TestForwardedIsNotForwardedAgain(t *testing.T) {
	c := mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: "n01"}), Dial: noDial(t)})
	_, err := c.Forward(t.Context(), member(2), mesh.Forward{Path: "/v1/x", Header: http.Header{"X-Viiwork-Hop": {"1"}}})
	if !errors.Is(err, mesh.ErrTwoHops) {
		t.Fatalf("got %v", err)
	}
}

func noDial(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, addr string) (net.Conn, error) {
		t.Errorf("dialled %s", addr)
		return nil, errors.New("no")
	}
}

func TestOnlyMembersAddressesAreDialled(t *testing.T) {
	c := mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: "n01"}), Dial: noDial(t)})
	for _, addr := range []string{"", "localhost:80", "evil.example:80", "127.0.0.1", "10.0.0.1:0", "0.0.0.0:80", "[::]:80", "10.0.0.1:80/x", "user@10.0.0.1:80"} {
		m := member(2)
		m.Addr = addr
		if _, err := c.Forward(t.Context(), m, mesh.Forward{Path: "/v1/x"}); err == nil {
			t.Errorf("%q: no error", addr)
		}
	}
	for _, path := range []string{"", "v1", "//evil.example/x", "http://evil.example/x", "/x?y=1", "/\x00"} {
		if _, err := c.Forward(t.Context(), member(2), mesh.Forward{Path: path}); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
}

func TestUnreachableMemberHasNotSeenTheRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := member(2)
	m.Addr = l.Addr().String()
	_ = l.Close()
	c := client(t, mesh.SignerConfig{ID: "n01"})
	if _, err := c.Forward(t.Context(), m, mesh.Forward{Path: "/v1/x", Body: []byte("b")}); !errors.Is(err, mesh.ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
}

func TestForwardEndsForTheReasonGiven(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := member(2)
	m.Addr = l.Addr().String()
	c := client(t, mesh.SignerConfig{ID: "n01"})
	ctx, heard := mesh.NewTable(50*time.Millisecond).Guard(t.Context(), m.ID)
	defer heard()
	if _, err := c.Forward(ctx, m, mesh.Forward{Path: "/v1/x", Body: []byte("b")}); !errors.Is(err, mesh.ErrSilent) {
		t.Fatalf("got %v", err)
	}
}

func TestSkewedSenderCorrectsItselfOnce(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	r := receive(t, mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k}))
	off := -5 * time.Minute
	c := client(t, mesh.SignerConfig{ID: "n01", Keys: k, Now: func() time.Time { return time.Now().Add(off) }})
	for i, skew := range []time.Duration{-5 * time.Minute, 0, time.Hour} { // the clock is set in between
		off = skew
		resp, err := c.Forward(t.Context(), r.Member, mesh.Forward{Path: "/v1/x", Body: []byte("b")})
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v off: %v %v", skew, resp, err)
		}
		_ = resp.Body.Close()
		if n := int(r.ran.Load()); n != i+1 {
			t.Fatalf("%d ran, want %d", n, i+1)
		}
	}
}

func TestRefusalsAreNotTriedAgain(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	var asked atomic.Int32
	v := mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k, Now: func() time.Time { return time.Now().Add(time.Duration(asked.Load()) * time.Hour) }})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1) // a clock that runs away
		_, err := v.Check(r)
		mesh.WriteRefusal(w, err)
	}))
	defer server.Close()
	m := member(2)
	m.Addr = server.Listener.Addr().String()
	c := client(t, mesh.SignerConfig{ID: "n01", Keys: k})
	resp, err := c.Forward(t.Context(), m, mesh.Forward{Path: "/v1/x"})
	if err != nil || resp.StatusCode != 403 || asked.Load() != 2 {
		t.Fatalf("%v %v after %d", resp, err, asked.Load())
	}
	_ = resp.Body.Close()
}

// TestLargeBodyRefusedKeepsItsStatus in time of its own: the receiver is given a second to say whether it wants the body.
func TestLargeBodyRefusedKeepsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, web, m := &atomic.Int64{}, newNetwork(), member(2)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "full", http.StatusTooManyRequests)
		})}
		l := web.listen(m.Addr)
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		c := mesh.NewClient(mesh.ClientConfig{
			Signer: mesh.NewSigner(mesh.SignerConfig{ID: "n01"}),
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := web.DialContext(ctx, network, addr)
				return counted{conn, sent}, err
			},
		})
		defer c.Close()
		body := bytes.Repeat([]byte("x"), 32<<20)
		for range 20 {
			resp, err := c.Forward(t.Context(), m, mesh.Forward{Path: "/v1/x", Body: body})
			if err != nil || resp.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("%v %v", resp, err)
			}
			got, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if !strings.Contains(string(got), "full") {
				t.Fatalf("body %q", got)
			}
		}
		if n := sent.Load(); n > 1<<20 {
			t.Errorf("%d bytes went over the wire for 20 refusals", n)
		}
	})
}
