package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	viiwork "viiwork/appliance/viiwork"
)

// TestServeTellsItsManagerHowItFares: up once it listens, alive as long as it answers itself, on its way out at the end.
func TestServeTellsItsManagerHowItFares(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	hear := func() string {
		t.Helper()
		listener.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 256)
		n, err := listener.Read(buf)
		if err != nil {
			t.Fatalf("nothing heard: %v", err)
		}
		return string(buf[:n])
	}
	port, err := newPorts().free()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "viiwork.yaml")
	text := fmt.Sprintf(`node: {name: n, state_dir: state, drain: 1s}
api: {host: 127.0.0.1, port: %d, local: ""}
mesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}
`, port, port+1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		ended <- viiwork.Run(ctx, []string{"serve", "--config", config}, viiwork.Streams{
			In: strings.NewReader(""), Out: io.Discard, Err: io.Discard,
			Environ: []string{"NOTIFY_SOCKET=" + filepath.Join(dir, "notify"), "WATCHDOG_USEC=300000", fmt.Sprintf("WATCHDOG_PID=%d", os.Getpid())},
		})
	}()
	// It lives once its socket answers, which may be a moment before it listens. Before that it may not claim to.
	first := hear()
	for first == "WATCHDOG=1" {
		first = hear()
	}
	if first != "READY=1" {
		t.Fatalf("first heard %q", first)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("said to be ready: %v", err)
	}
	conn.Close()
	for range 3 {
		if got := hear(); got != "WATCHDOG=1" {
			t.Fatalf("heard %q, want a beat", got)
		}
	}
	cancel()
	last := hear()
	for last == "WATCHDOG=1" {
		last = hear()
	}
	if last != "STOPPING=1" {
		t.Errorf("heard %q, want its end", last)
	}
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// TestAManagerThatReadsNoMoreHoldsNothingUp: its queue is full before the first word is said.
func TestAManagerThatReadsNoMoreHoldsNothingUp(t *testing.T) {
	dir := t.TempDir()
	address := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	listener, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	fill, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for err == nil {
		fill.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = fill.Write([]byte("full"))
	}
	port, err := newPorts().free()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "viiwork.yaml")
	text := fmt.Sprintf("node: {name: n, state_dir: state, drain: 1s}\napi: {host: 127.0.0.1, port: %d, local: \"\"}\n"+
		"mesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}\n", port, port+1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		ended <- viiwork.Run(ctx, []string{"serve", "--config", config}, viiwork.Streams{
			In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Environ: []string{"NOTIFY_SOCKET=" + address.Name},
		})
	}()
	for listens := false; !listens; time.Sleep(20 * time.Millisecond) {
		if len(ended) > 0 {
			t.Fatalf("ended with %d before it listened", <-ended)
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if listens = err == nil; listens {
			conn.Close()
		}
	}
	cancel()
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("ended with %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("the node waits for its manager")
	}
}
