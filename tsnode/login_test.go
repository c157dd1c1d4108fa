package tsnode_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

func TestLoginURLIsShownUntilUsed(t *testing.T) {
	c := startControl(t, localcontrol.Config{RequireLogin: true})
	n := run(t, device(t, c, "a"))
	await(t, "a login address", func() bool { return n.Status().LoginURL != "" })
	s := n.Status()
	if s.State != tsnode.StateNeedsLogin || !strings.HasPrefix(s.LoginURL, c.URL()) || !hasWarning(s, "tailnet-login") {
		t.Errorf("status is %+v", s)
	}
	if _, err := n.ListenStream(8086); !errors.Is(err, tsnode.ErrNotUp) {
		t.Errorf("listening before the login gives %v, want ErrNotUp", err)
	}
	if _, err := n.DialContext(bounded(t), "tcp", "100.64.0.9:80"); !errors.Is(err, tsnode.ErrNotUp) {
		t.Errorf("dialling before the login gives %v, want ErrNotUp", err)
	}
	if !c.CompleteLogin(s.LoginURL) {
		t.Fatal("the control server does not know the address")
	}
	awaitReady(t, n)
	await(t, "a clean status", func() bool {
		s := n.Status()
		return s.State == tsnode.StateUp && s.LoginURL == "" && len(s.Warnings) == 0
	})
	if got := n.Status().DNSName; got != "viiwork-a.demo.ts.net" {
		t.Errorf("the device's name is %q", got)
	}
}

func TestExpiredKeyIsNamedAndHeals(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a, b := up(t, device(t, c, "a")), up(t, device(t, c, "b"))
	l, err := b.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	exchange(t, a, address(b, 0, 8086), "before")
	c.ExpireDevices(true)
	await(t, "the warning", func() bool { return hasWarning(a.Status(), "tailnet-key-expired") })
	if a.Status().State != tsnode.StateNeedsLogin {
		t.Errorf("the state is %q", a.Status().State)
	}
	if _, err := a.DialContext(bounded(t), "tcp", address(b, 0, 8086)); !errors.Is(err, tsnode.ErrNotUp) {
		t.Errorf("dialling with an expired key gives %v, want ErrNotUp at once", err)
	}
	c.ExpireDevices(false)
	await(t, "the end of the warning", func() bool {
		return a.Status().State == tsnode.StateUp && !hasWarning(a.Status(), "tailnet-key-expired")
	})
	exchange(t, a, address(b, 0, 8086), "the listener from before still answers")
}

func TestRefusedKeyIsNamedWithoutShowingIt(t *testing.T) {
	c := startControl(t, localcontrol.Config{AuthKey: "tskey-right"})
	cfg := device(t, c, "a")
	cfg.AuthKey = "tskey-wrong-2718"
	n := run(t, cfg)
	await(t, "the refusal", func() bool { return hasWarning(n.Status(), "tailnet-refused") })
	for _, w := range n.Status().Warnings {
		if strings.Contains(w.Text+w.Fix, "2718") {
			t.Errorf("the key is shown: %+v", w)
		}
	}
	select {
	case <-n.Ready():
		t.Error("ready with a refused key")
	default:
	}
}

func TestKeyComesFromConfigFileOrEnvironment(t *testing.T) {
	c := startControl(t, localcontrol.Config{AuthKey: "tskey-right"})
	file := writeFile(t, "tskey-right\n")
	for name, set := range map[string]func(*tsnode.Config){
		"config": func(cfg *tsnode.Config) { cfg.AuthKey = "tskey-right" },
		"file":   func(cfg *tsnode.Config) { cfg.AuthKey = "file:" + file },
		"environment": func(cfg *tsnode.Config) {
			cfg.Getenv = func(name string) string { return map[string]string{"TS_AUTHKEY": "tskey-right"}[name] }
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := device(t, c, name)
			set(&cfg)
			up(t, cfg)
		})
	}
}

// TestDeviceJoinsWhenItsControlServerComes starts a device first and the way to its control server later.
func TestDeviceJoinsWhenItsControlServerComes(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	way := newWay(t, strings.TrimPrefix(c.URL(), "http://"))
	way.open.Store(false)
	cfg := device(t, c, "a")
	cfg.ControlURL = "http://" + way.addr
	n := run(t, cfg)
	await(t, "attempts to reach it", func() bool { return way.refused.Load() > 2 })
	if s := n.Status(); s.State != tsnode.StateStarting {
		t.Errorf("the state is %+v", s)
	}
	way.open.Store(true)
	awaitReady(t, n)
}

// way is a forwarder that can be shut.
type way struct {
	addr    string
	open    atomic.Bool
	refused atomic.Int32
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{addr: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil || !w.open.Load() {
				w.refused.Add(1)
				in.Close()
				if err == nil {
					out.Close()
				}
				continue
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return w
}

// TestKnownPeersOutliveControl ends the control server and the relay under two devices.
func TestKnownPeersOutliveControl(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	a, b := up(t, device(t, c, "a")), up(t, device(t, c, "b"))
	l, err := b.ListenStream(8086)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	exchange(t, a, address(b, 0, 8086), "before")
	await(t, "each to reach the other without the relay", func() bool {
		_, _ = once(bounded(t), a, address(b, 0, 8086), "x") // a path that is not used is none
		return isDirect(a) && isDirect(b)
	})
	c.Close()
	time.Sleep(time.Second) // for whatever would end with it
	exchange(t, a, address(b, 0, 8086), "after")
	if a.Status().State != tsnode.StateUp {
		t.Errorf("the state is %q", a.Status().State)
	}
}

// isDirect reports whether a node's only peer is reached without a relay.
func isDirect(n *running) bool {
	peers := n.Peers()
	return len(peers) == 1 && peers[0].Path == tsnode.PathDirect
}

func hasWarning(s tsnode.Status, id string) bool {
	for _, w := range s.Warnings {
		if w.ID == id {
			return w.Text != "" && w.Fix != ""
		}
	}
	return false
}
