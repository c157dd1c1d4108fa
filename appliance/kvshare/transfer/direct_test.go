package transfer_test

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// A node breaks off its direct path while it answers: what is missing comes by the mesh, and nothing comes twice. The node
// closes what it answers from only after Run, and so that waits for the answer it broke off.
func TestWhatBreaksOffGoesOnAtTheChunk(t *testing.T) {
	s := newStates(40, 100_000)
	asks, has := pair(t, s, freePort(t))
	ended, resumed := make(chan struct{}), make(chan struct{})
	a := arrive(t, s)
	s.asked = func(n int, b []byte) ([]byte, error) {
		switch n {
		case 20:
			go func() { defer close(ended); has.stop() }()
			<-resumed
			select {
			case <-ended:
				t.Error("Run has ended before an answer that it began")
			default:
			}
		case 21: // the first that is asked for anew
			close(resumed)
		}
		return b, nil
	}
	got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if err != nil {
		t.Fatal(err)
	}
	a.isWhole()
	if got.Bytes != s.manifest.Size {
		t.Errorf("moved %+v", got)
	}
	<-ended
}

// A stranger's hello is answered with an alert alone: no certificate, no other sign of what this is.
func TestAStrangerGetsNoHandshake(t *testing.T) {
	port := freePort(t)
	pair(t, newStates(1, 10), port)
	for _, name := range []string{"", "viiwork", strings.Repeat("0", 32) + ".kv"} {
		c, err := net.Dial("tcp", at(port))
		if err != nil {
			t.Fatal(err)
		}
		seen := &watched{Conn: c}
		err = tls.Client(seen, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		c.Close()
		const alertRecord = 21
		if err == nil || len(seen.read) == 0 || seen.read[0] != alertRecord || len(seen.read) > 7 {
			t.Errorf("%q: %v after %x", name, err, seen.read)
		}
	}
	resp, err := http.Get("http://" + at(port) + transfer.ChunksPath)
	if err == nil {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %d %s", resp.StatusCode, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// watched remembers what was read.
type watched struct {
	net.Conn
	read []byte
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.read = append(w.read, b[:n]...)
	return n, err
}

// A name in a hello can be read by everyone on the way. Whoever repeats it still has another certificate.
func TestANameWithoutItsCertificateOpensNothing(t *testing.T) {
	s := newStates(20, 1000)
	port := freePort(t)
	asks, has := pair(t, s, port)
	if got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), arrive(t, s).put); err != nil || got.Path != "direct" {
		t.Fatal(got, err)
	}
	thief, err := transfer.NewClient(transfer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", at(port), thief.As(asks.client))
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "POST "+transfer.ChunksPath+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	if b, err := io.ReadAll(c); len(b) > 0 || err == nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Somebody else answers where a member's direct path was: he gets no question.
func TestAnotherCertificateIsAskedNothing(t *testing.T) {
	s := newStates(20, 1000)
	port := freePort(t)
	asks, has := pair(t, s, port)
	if _, err := asks.client.Fetch(within(t), has.Member, s.manifest, []int{0}, arrive(t, s).put); err != nil {
		t.Fatal(err)
	}
	has.stop()
	impostor := start(t, "c", plan{keys: keys(t, mesh.KeyConfig{Secret: other}), source: s, direct: port})
	awaitDirect(t, port)
	impostor.server.Expect("a", asks.client)
	s.n = 0
	a := arrive(t, s)
	got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if err != nil || got.Path != "mesh" {
		t.Errorf("%+v, %v", got, err)
	}
	a.isWhole()
}

// After a restart a node has another certificate and knows nobody. One transfer takes the mesh, the next is direct again.
func TestARestartedNodeIsFoundAgain(t *testing.T) {
	s := newStates(20, 1000)
	port := freePort(t)
	asks, has := pair(t, s, port)
	fetch := func() string {
		t.Helper()
		a := arrive(t, s)
		got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
		if err != nil {
			t.Fatal(err)
		}
		a.isWhole()
		return got.Path
	}
	if p := fetch(); p != "direct" {
		t.Error("at first: ", p)
	}
	has.stop()
	again := start(t, "b", plan{keys: keys(t, mesh.KeyConfig{Secret: secret}), source: s, direct: port})
	awaitDirect(t, port)
	has.Member = again.Member
	if p := fetch(); p != "mesh" {
		t.Error("with the old offer: ", p)
	}
	if p := fetch(); p != "direct" {
		t.Error("with a new one: ", p)
	}
}

func TestAnOpenMeshHasNoDirectPath(t *testing.T) {
	s := newStates(20, 1000)
	port := freePort(t)
	open := keys(t, mesh.KeyConfig{})
	asks := start(t, "a", plan{keys: open, source: s})
	has := start(t, "b", plan{keys: open, source: s, direct: port})
	a := arrive(t, s)
	got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if err != nil || got.Path != "mesh" {
		t.Errorf("%+v, %v", got, err)
	}
	a.isWhole()
	resp, err := asks.mesh.Post(within(t), has.Member, transfer.DirectPath, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("%d", resp.StatusCode)
	}
	if c, err := net.Dial("tcp", at(port)); err == nil {
		c.Close()
		t.Error("somebody listens")
	}
}

// The direct path answers one question, to who is still expected.
func TestTheDirectPathAnswersNothingElse(t *testing.T) {
	s := newStates(20, 1000)
	port := freePort(t)
	asks, has := pair(t, s, port)
	if _, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), arrive(t, s).put); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string, body string) int {
		t.Helper()
		c, err := tls.Dial("tcp", at(port), asks.client.Dials(has.client))
		if err != nil {
			t.Fatal(err)
		}
		web := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
		defer web.CloseIdleConnections()
		req, _ := http.NewRequest(method, "https://x"+path, strings.NewReader(body))
		resp, err := web.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	sum := s.manifest.Chunks[0].Sum
	right := strings.Repeat("\x00", 8) + string(sum[:])
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", transfer.ChunksPath, right, http.StatusOK},
		{"POST", transfer.ManifestPath, link, http.StatusBadRequest},
		{"POST", transfer.ManifestPath, right, http.StatusBadRequest},
		{"POST", transfer.ChunksPath, right[1:], http.StatusBadRequest},
		{"GET", transfer.ChunksPath, right, http.StatusMethodNotAllowed},
	} {
		if got := ask(c.method, c.path, c.body); got != c.want {
			t.Errorf("%s %s %s: %d", c.method, c.path, hex.EncodeToString([]byte(c.body)), got)
		}
	}
}

func TestConnectionsOfStrangersAreBounded(t *testing.T) {
	d := transfer.NewDoor()
	in := 0
	for i := range 100 {
		for range 100 {
			if d.Enter(i) {
				in++
			}
		}
		if i == 0 && in != transfer.MaxFrom {
			t.Errorf("%d from one address", in)
		}
	}
	if in != transfer.MaxConns {
		t.Errorf("%d of all", in)
	}
	d.Leave(0)
	if !d.Enter(99) || d.Enter(99) {
		t.Error("who leaves makes room for one")
	}
}

func TestTheListOfGuestsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l transfer.List
		for i := range 1000 {
			l.Expect(fmt.Sprint(i), byte(i), byte(i>>8))
			l.Expect(fmt.Sprint(i), byte(i), byte(i>>8)|0x80) // started anew
		}
		if n := l.Len(); n != transfer.MaxGuests {
			t.Errorf("%d guests", n)
		}
		if !l.Has(byte(999&0xff), 999>>8|0x80) || l.Has(byte(999&0xff), 999>>8) {
			t.Error("the last one is not there as it said last")
		}
		time.Sleep(transfer.GuestFor + time.Second)
		if l.Has(byte(999&0xff), 999>>8|0x80) {
			t.Error("who said long ago that it would come may still come")
		}
	})
}

func TestOffersThatCannotBeAreRefused(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for _, c := range []struct {
		text  string
		local bool
		good  bool
	}{
		{sum + "\n192.168.1.7:8087", false, true},
		{sum + "\n192.168.1.7:8087\n[fd00::7]:8087", false, true},
		{sum + "\n127.0.0.1:8087", true, true},
		{sum + "\n127.0.0.1:8087", false, false},
		{sum + "\n0.0.0.0:8087", true, false},
		{sum + "\n224.0.0.1:8087", true, false},
		{sum + "\n169.254.169.254:80", true, false},
		{sum + "\n[fe80::1%eth0]:8087", true, false},
		{sum + "\n192.168.1.7:0", false, false},
		{sum + "\nexample.org:8087", false, false},
		{sum, false, false},
		{sum[2:] + "\n192.168.1.7:8087", false, false},
		{"", false, false},
		{sum + strings.Repeat("\n192.168.1.7:8087", 9), false, false},
	} {
		if err := transfer.ReadOffer([]byte(c.text), c.local); (err == nil) != c.good {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

func FuzzOffer(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32)+"\n192.168.1.7:8087\n[fd00::7]:8087"), false)
	f.Fuzz(func(t *testing.T, b []byte, local bool) {
		again, err := transfer.OfferAgain(b, local)
		if err == nil && transfer.ReadOffer(again, local) != nil {
			t.Errorf("%q was read and %q is not", b, again)
		}
	})
}

func FuzzAsk(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		left, sums, ok := transfer.ReadAsk(b)
		if ok && (left < 0 || len(sums) == 0 || len(sums)%32 != 0 || len(sums) > 4096*32) {
			t.Errorf("%d bytes: %d left, %d of sums", len(b), left, len(sums))
		}
	})
}
