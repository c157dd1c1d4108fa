package tsnode_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// TestRunLeavesNothingBehind counts goroutines around whole lives of both kinds of node and of the local tailnet.
func TestRunLeavesNothingBehind(t *testing.T) {
	life := func() {
		c, err := localcontrol.Start(localcontrol.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, cfg := range []tsnode.Config{device(t, c, "a"), neighbour(t, "b", "127.0.0.61", "127.0.0.62")} {
			n := up(t, cfg)
			l, err := n.ListenStream(8086)
			if err != nil {
				t.Fatal(err)
			}
			p, err := n.ListenPacket(7946)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.stop(); err != nil {
				t.Errorf("%s: Run ended with %v", cfg.Name, err)
			}
			l.Close()
			p.Close()
		}
	}
	life() // what the libraries start once and keep
	before := runtime.NumGoroutine()
	for range 3 {
		life()
	}
	var after int
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if after = runtime.NumGoroutine(); after <= before {
			return
		}
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after\n%s", before, after, buf[:runtime.Stack(buf, true)])
}

// TestRunEndsWhileTheLoginWaits ends a node that nobody ever logged in.
func TestRunEndsWhileTheLoginWaits(t *testing.T) {
	c := startControl(t, localcontrol.Config{RequireLogin: true})
	n := run(t, device(t, c, "a"))
	await(t, "a login address", func() bool { return n.Status().LoginURL != "" })
	if err := n.stop(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

// TestRunEndsWithoutAControlServer ends a node whose control server never answered, and one that was never run at all.
func TestRunEndsWithoutAControlServer(t *testing.T) {
	cfg := tsnode.Config{Network: tsnode.Tailnet, Name: "a", StateDir: t.TempDir(), ControlURL: "http://127.0.0.1:1", Log: quiet()}
	n := run(t, cfg)
	await(t, "a start", func() bool { return n.Status().State != "" })
	if err := n.stop(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	never, err := tsnode.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := never.Close(); err != nil {
		t.Error(err)
	}
}

func TestLogsStayHere(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	up(t, device(t, c, "a"))
	if os.Getenv("TS_NO_LOGS_NO_SUPPORT") != "true" {
		t.Error("the library would upload its logs")
	}
}

func TestPlainRelayIsKnownByItsAnswer(t *testing.T) {
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/derp/probe" {
			http.NotFound(w, r)
		}
	}))
	defer relay.Close()
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	for url, want := range map[string]bool{relay.URL: true, relay.URL + "/": true, none.URL: false, "": false, "https://127.0.0.1:1": false} {
		if got := tsnode.RelayIsPlain(bounded(t), url); got != want {
			t.Errorf("%q: %v, want %v", url, got, want)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if tsnode.RelayIsPlain(ended, relay.URL) {
		t.Error("found after the context had ended")
	}
}

// TestJoinedSocketsReadAsOne moves a deadline under a waiting read, and sends over each family.
func TestJoinedSocketsReadAsOne(t *testing.T) {
	four, six := loopbackUDP(t, "127.0.0.1"), loopbackUDP(t, "::1")
	p := tsnode.JoinPackets(four, six)
	defer p.Close()
	waited := make(chan error, 1)
	go func() {
		_, _, err := p.ReadFrom(make([]byte, 1))
		waited <- err
	}()
	p.SetReadDeadline(time.Now().Add(-time.Second))
	select {
	case err := <-waited:
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			t.Errorf("the read ended with %v, want a timeout", err)
		}
	case <-time.After(patience):
		t.Fatal("a deadline in the past does not end the read")
	}
	p.SetReadDeadline(time.Time{})
	for _, peer := range []net.PacketConn{loopbackUDP(t, "127.0.0.1"), loopbackUDP(t, "::1")} {
		if _, err := p.WriteTo([]byte("x"), peer.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		_, from, err := peer.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := peer.WriteTo([]byte("yes"), from); err != nil {
			t.Fatal(err)
		}
		n, back, err := p.ReadFrom(buf)
		if err != nil || string(buf[:n]) != "yes" || back.String() != peer.LocalAddr().String() {
			t.Errorf("got %q from %v, %v", buf[:n], back, err)
		}
	}
}

func loopbackUDP(t *testing.T, host string) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("no UDP on %s: %v", host, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestABusyDeviceEnds although it has closed more connections lately than its TCP can reset.
func TestABusyDeviceEnds(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	busy, other := up(t, device(t, c, "busy")), up(t, device(t, c, "other"))
	l, err := other.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	addr := address(other, 0, 8086)
	exchange(t, busy, addr, "there")
	var asks sync.WaitGroup
	var closed atomic.Int32
	for range 20 {
		asks.Go(func() {
			for range 50 {
				if _, err := once(bounded(t), busy, addr, "x"); err == nil { // not each of twenty at one time comes through within a dial's 10 s
					closed.Add(1)
				}
			}
		})
	}
	asks.Wait()
	if n := closed.Load(); n <= 600 {
		t.Fatalf("it has closed %d connections: this test tests nothing", n)
	}
	if err := busy.stop(); err != nil {
		t.Error(err)
	}
}
