package localcontrol_test

import (
	"net"
	"net/http"
	"net/url"
	"runtime"
	"testing"
	"time"

	"viiwork/tsnode/localcontrol"
)

func start(t *testing.T, cfg localcontrol.Config) *localcontrol.Control {
	t.Helper()
	c, err := localcontrol.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestForeignRequestsDoNoHarm sends what a browser would: the server behind ends the whole process over such requests.
func TestForeignRequestsDoNoHarm(t *testing.T) {
	c := start(t, localcontrol.Config{})
	for _, path := range []string{"/", "/favicon.ico", "/machine/map", "/machine/register", "/c2n/x", "/auth/none", "/derp/probe"} {
		resp, err := http.Get(c.URL() + path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s, want 404", path, resp.Status)
		}
	}
	resp, err := http.Get(c.URL() + "/key?v=100")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the key afterwards: %s", resp.Status)
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	u, err := url.Parse(start(t, localcontrol.Config{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		t.Errorf("the control server is at %s", u.Host)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	once := func() {
		c, err := localcontrol.Start(localcontrol.Config{})
		if err != nil {
			t.Fatal(err)
		}
		hung, err := net.Dial("tcp", c.URL()[len("http://"):]) // a client that says nothing
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		c.Close()
		hung.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := hung.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes from a closed server", n)
		} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Error("the connection outlives the server")
		}
		hung.Close()
	}
	once()
	before := runtime.NumGoroutine()
	once()
	once()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
