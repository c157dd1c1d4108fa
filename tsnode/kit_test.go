package tsnode_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// patience is how long anything may take that is awaited here: much longer than it does.
const patience = 90 * time.Second

// startControl opens a tailnet on loopback for one test.
func startControl(t *testing.T, cfg localcontrol.Config) *localcontrol.Control {
	t.Helper()
	c, err := localcontrol.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// device is a config for a node on c.
func device(t *testing.T, c *localcontrol.Control, name string) tsnode.Config {
	return tsnode.Config{
		Network: tsnode.Tailnet, Name: name, StateDir: t.TempDir(),
		APIPort: 8086, GossipPort: 7946, ControlURL: c.URL(),
		Log: quiet(), Getenv: func(string) string { return "" },
	}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// running is a node under test with what ends it.
type running struct {
	*tsnode.Node
	stop func() error // ends Run and returns what it returned; may be called again
}

// run starts a node and ends it with the test.
func run(t *testing.T, cfg tsnode.Config) *running {
	t.Helper()
	n, err := tsnode.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Errorf("%s: Run did not return", cfg.Name)
			return nil
		}
	})
	t.Cleanup(func() { stop() })
	return &running{n, stop}
}

// up runs a node and waits until it may listen.
func up(t *testing.T, cfg tsnode.Config) *running {
	t.Helper()
	n := run(t, cfg)
	awaitReady(t, n)
	return n
}

func awaitReady(t *testing.T, n *running) {
	t.Helper()
	select {
	case <-n.Ready():
	case <-time.After(patience):
		t.Fatalf("not ready: %+v", n.Status())
	}
}

// await asks until it holds. Devices learn of each other in their own time.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("never came to hold: %s", what)
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// address is host:port of n's i-th own address.
func address(n *running, i, port int) string {
	return net.JoinHostPort(n.Addrs()[i].String(), strconv.Itoa(port))
}

// echo answers every connection with what it sends. At the end of the test it closes those whose other side has not: a device
// that has ended cannot say so any more.
func echo(t *testing.T, l net.Listener) {
	t.Helper()
	var conns sync.WaitGroup
	over := make(chan struct{})
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			said := make(chan struct{})
			conns.Go(func() { defer close(said); io.Copy(c, c) })
			conns.Go(func() {
				defer c.Close()
				select {
				case <-said:
				case <-over:
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); close(over); conns.Wait() })
}

// exchange sends text to addr and wants it back, trying until the two devices know each other.
func exchange(t *testing.T, from *running, addr, text string) {
	t.Helper()
	var last error
	await(t, "an exchange with "+addr, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var got string
		got, last = once(ctx, from, addr, text)
		return last == nil && got == text
	})
}

func once(ctx context.Context, from *running, addr, text string) (string, error) {
	c, err := from.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	buf := make([]byte, len(text))
	_, err = io.ReadFull(c, buf)
	return string(buf), err
}
