package mesh_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// publish runs b's publisher behind a real server.
func publish(t *testing.T, cfg mesh.KeyConfig) (*node, *httptest.Server) {
	b := newNode(t, member(2), keys(t, cfg), nil)
	b.report = capacity(4)
	b.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: b.ID, Keys: b.keys})
	b.publisher = mesh.NewPublisher(mesh.PublisherConfig{ID: b.ID, Name: b.Name, Version: b.Version, Verifier: b.verifier, Source: b.source})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); check(t, b.publisher.Run(ctx)) }()
	server := httptest.NewServer(b.publisher)
	t.Cleanup(func() { cancel(); <-done; server.Close() })
	for { // until Run has published
		if resp := get(t, server.URL, sender(b, "n09", "")); resp.StatusCode != http.StatusServiceUnavailable {
			_ = resp.Body.Close()
			return b, server
		}
	}
}

// sender signs as id, speaking the given wire version; "" = this one.
func sender(b *node, id, wire string) func(*http.Request) {
	s := mesh.NewSigner(mesh.SignerConfig{ID: id, Keys: b.keys})
	return func(r *http.Request) {
		s.Sign(r, b.ID, sha256.Sum256(nil))
		if wire != "" {
			r.Header.Set("X-Viiwork-Wire", wire)
			mesh.Resign(b.keys, r)
		}
	}
}

func get(t testing.TB, url string, sign func(*http.Request)) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url+"/v1/capacity", nil)
	if err != nil {
		t.Fatal(err)
	}
	if path, query, ok := strings.Cut(url, "?"); ok {
		req.URL.Host = strings.TrimPrefix(path, "http://")
		req.URL.RawQuery = strings.TrimSuffix(query, "/v1/capacity")
		req.URL.Path = "/v1/capacity"
	}
	if sign != nil {
		sign(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close(); http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	return resp
}

func TestCapacityIsForMembers(t *testing.T) {
	b, server := publish(t, mesh.KeyConfig{Secret: secret})
	for _, url := range []string{server.URL, server.URL + "?watch=1"} {
		if resp := get(t, url, nil); resp.StatusCode != http.StatusForbidden || resp.Header.Get("X-Viiwork-Refused") != "unsigned" {
			t.Errorf("unsigned: %d %v", resp.StatusCode, resp.Header)
		}
	}
	resp := get(t, server.URL, sender(b, "n01", ""))
	var r mesh.Report
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode, err)
	}
	if r.ID != "n02" || r.Wire != mesh.Wire || r.Seq != 1 || r.Epoch == 0 || len(r.Models) != 1 || r.Models[0].Backends[0].PrefillTPS != nil {
		t.Errorf("%+v", r)
	}
}

func TestAskerIsAnsweredInItsWire(t *testing.T) {
	b, server := publish(t, mesh.KeyConfig{Secret: secret})
	for wire, want := range map[string]struct{ status, wire int }{"1": {200, 1}, "2": {200, 2}, "3": {200, 2}, "0": {400, 0}} {
		resp := get(t, server.URL, sender(b, "n01", wire))
		var r mesh.Report
		_ = json.NewDecoder(resp.Body).Decode(&r)
		if resp.StatusCode != want.status || r.Wire != want.wire {
			t.Errorf("wire %s: %d, version %d", wire, resp.StatusCode, r.Wire)
		}
	}
	resp := get(t, server.URL+"?watch=1", sender(b, "n01", "1"))
	var r mesh.Report
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || r.Wire != 1 {
		t.Errorf("wire 1 with watch: %+v, %v", r, err)
	}
}

// TestWhoAsksAtTheStartIsAnsweredWithTheFirstWord, for which it waits a second at the most.
func TestWhoAsksAtTheStartIsAnsweredWithTheFirstWord(t *testing.T) {
	for name, c := range map[string]struct {
		comes, after time.Duration
		status       int
	}{"soon": {300 * time.Millisecond, 300 * time.Millisecond, http.StatusOK}, "never": {time.Hour, time.Second, http.StatusServiceUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			b := newNode(t, member(2), keys(t, mesh.KeyConfig{}), nil)
			b.report = capacity(4)
			b.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: b.ID, Keys: b.keys})
			b.publisher = mesh.NewPublisher(mesh.PublisherConfig{ID: b.ID, Name: b.Name, Version: b.Version, Verifier: b.verifier, Source: b.source})
			ctx, cancel := context.WithCancel(t.Context())
			var over sync.WaitGroup
			over.Go(func() {
				select {
				case <-ctx.Done():
				case <-time.After(c.comes):
					check(t, b.publisher.Run(ctx))
				}
			})
			req := httptest.NewRequest(http.MethodGet, "/v1/capacity", nil)
			sender(b, "n09", "")(req)
			began, w := time.Now(), httptest.NewRecorder()
			b.publisher.ServeHTTP(w, req)
			if took := time.Since(began); w.Code != c.status || took != c.after {
				t.Errorf("%s: %d after %v", name, w.Code, took)
			}
			cancel()
			over.Wait()
		})
	}
}

func TestNodeOnItsWayDownBeginsNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(2 * time.Second)
		b.publisherEnds()
		time.Sleep(10 * time.Second)
		if s := a.sees(b.ID); s.Report != nil || !strings.Contains(s.Fault, "503") {
			t.Errorf("10 s after its end: %+v", s)
		}
	})
}

func TestOpenMeshTellsAnyone(t *testing.T) {
	b, server := publish(t, mesh.KeyConfig{})
	if resp := get(t, server.URL, nil); resp.StatusCode != 200 {
		t.Errorf("unsigned: %d", resp.StatusCode)
	}
	stranger := newNode(t, member(1), keys(t, mesh.KeyConfig{Secret: secret}), nil)
	stranger.ID = b.ID
	if resp := get(t, server.URL, sender(stranger, "n01", "")); resp.StatusCode != http.StatusForbidden {
		t.Errorf("signed with a secret: %d", resp.StatusCode)
	}
}

func TestNewStreamEndsTheSendersOldOne(t *testing.T) {
	b, server := publish(t, mesh.KeyConfig{Secret: secret})
	first := get(t, server.URL+"?watch=1", sender(b, "n01", ""))
	other := get(t, server.URL+"?watch=1", sender(b, "n03", ""))
	lines := bufio.NewScanner(first.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"report":`) {
		t.Fatalf("first line %q", lines.Text())
	}
	second := get(t, server.URL+"?watch=1", sender(b, "n01", ""))
	for lines.Scan() { // ends
	}
	b.set(capacity(0))
	for _, resp := range []*http.Response{other, second} {
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), `{"change":`) {
		}
		if err := lines.Err(); err != nil || !strings.Contains(lines.Text(), `"free":0`) {
			t.Fatalf("%q %v", lines.Text(), err)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	b, server := publish(t, mesh.KeyConfig{Secret: secret})
	for i := range mesh.MaxStreams {
		if resp := get(t, server.URL+"?watch=1", sender(b, "s"+string(rune('a'+i%26))+string(rune('a'+i/26)), "")); resp.StatusCode != 200 {
			t.Fatalf("stream %d: %d", i, resp.StatusCode)
		}
	}
	if resp := get(t, server.URL+"?watch=1", sender(b, "more", "")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("one more: %d", resp.StatusCode)
	}
	if resp := get(t, server.URL, sender(b, "more", "")); resp.StatusCode != 200 {
		t.Fatalf("without watch: %d", resp.StatusCode)
	}
}

func TestStreamsEndWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNode(t, member(2), keys(t, mesh.KeyConfig{}), nil)
		b.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: b.ID, Keys: b.keys})
		b.publisher = mesh.NewPublisher(mesh.PublisherConfig{ID: b.ID, Name: "b", Verifier: b.verifier, Source: b.source})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { check(t, b.publisher.Run(ctx)) }()
		synctest.Wait()
		w := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.publisher.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/capacity?watch=1", nil))
		}()
		time.Sleep(2500 * time.Millisecond)
		cancel()
		<-ended
		if got := strings.Count(w.Body.String(), `{"beat":`); got != 2 {
			t.Fatalf("%d beats in 2.5 s: %s", got, w.Body)
		}
		if b.publisher.Run(t.Context()) == nil {
			t.Fatal("it ran twice")
		}
	})
}

func TestReportTooLargeIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, nil)
		time.Sleep(time.Second)
		big := mesh.Report{}
		for i := range 300 {
			big.Models = append(big.Models, mesh.Model{Name: strings.Repeat("m", 1+i%200)})
		}
		b.set(big)
		time.Sleep(5 * time.Second)
		if got := a.free(b.ID); got != 4 {
			t.Fatalf("free %d", got)
		}
		b.set(capacity(3))
		time.Sleep(50 * time.Millisecond)
		if got := a.free(b.ID); got != 3 {
			t.Fatalf("free %d once it fits again", got)
		}
	})
}
