package appliance_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
	"viiwork/serf"
	"viiwork/tsnode/localcontrol"
)

// tailnetFellow is a device of the tailnet c.
func tailnetFellow(t *testing.T, c *localcontrol.Control, name, secret string, models ...string) *fellow {
	return &fellow{name: name, dir: t.TempDir(), control: c.URL(), secret: secret, local: fmt.Sprintf("127.0.0.1:%d", portAt("127.0.0.1")), models: models}
}

func localTailnet(t *testing.T, cfg localcontrol.Config) *localcontrol.Control {
	t.Helper()
	c, err := localcontrol.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestTailnetMesh: three processes, each its own device of one tailnet, answer for each other, and one whose device or
// secret fails goes on alone.
func TestTailnetMesh(t *testing.T) {
	t.Parallel()
	control := localTailnet(t, localcontrol.Config{})
	engine := fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 200})
	own := fakeEngine(t, enginetest.Options{Slots: 4, Model: "own"})
	a := tailnetFellow(t, control, "a", rightSecret, served("m", engine.URL(), 4))
	b := tailnetFellow(t, control, "b", rightSecret)
	c := tailnetFellow(t, control, "c", rightSecret, served("own", own.URL(), 4))
	d := tailnetFellow(t, control, "d", wrongSecret, served("alone", own.URL(), 4))
	all := []*fellow{a, b, c}
	for _, f := range []*fellow{a, b, c, d} {
		f.spawn(t)
	}
	met := func() bool {
		return !slices.ContainsFunc(all, func(f *fellow) bool { return f.sees("m") != 1 || f.sees("own") != 1 })
	}
	t.Logf("three devices know each other's models after %s", holds(t, "everyone lists everything", met))

	t.Run("a model of one answers through all", func(t *testing.T) {
		for _, f := range all {
			for _, stream := range []bool{true, false} {
				got := f.chat("", question("m", "hello", 20, stream))
				if !got.complete(stream) || got.header.Get("X-Viiwork-Node") != "a" || got.header.Get("X-Viiwork-Origin") != f.name {
					t.Errorf("through %s, stream %v: %d %v %v, node %q, origin %q: %.300s", f.name, stream, got.status, got.begun, got.err,
						got.header.Get("X-Viiwork-Node"), got.header.Get("X-Viiwork-Origin"), got.body)
				}
			}
		}
	})
	t.Run("a wrong secret joins nothing and says so", func(t *testing.T) {
		var w *status.Warning
		holds(t, "the warning", func() bool { w = d.warning("gossip-secret", "mesh_secret"); return w != nil })
		holds(t, "its model", func() bool { return d.sees("alone") == 1 })
		if !strings.Contains(w.Text, "secret") || w.Fix == "" {
			t.Errorf("the warning is %+v", w)
		}
		if d.sees("m") != 0 || a.sees("alone") != 0 || a.member("d") != "" || d.member("a") != "" {
			t.Errorf("it is in the mesh: %v, %v", d.hosts(), a.hosts())
		}
		if got := d.chat("", question("alone", "x", 2, false)); !got.complete(false) {
			t.Errorf("it does not serve itself: %+v", got)
		}
	})
	t.Run("an expired key leaves the local service", func(t *testing.T) {
		say := expiry(control, true)
		holds(t, "the warning", func() bool { say(); return a.warning("tailnet-key-expired") != nil })
		holds(t, "nobody is routed to it", func() bool { say(); return b.sees("m") == 0 })
		if got := a.chat("", question("m", "local", 2, false)); !got.complete(false) {
			t.Errorf("%+v", got)
		}
		say = expiry(control, false)
		holds(t, "the end of the warning", func() bool { say(); return a.warning("tailnet-key-expired") == nil })
		t.Logf("whole again %s after the device", holds(t, "the mesh is whole", func() bool { say(); return met() }))
		b.reaches(t, "m")
	})
	t.Run("a node comes back", func(t *testing.T) {
		a.leave()
		holds(t, "it is gone", func() bool { return b.sees("m") == 0 })
		a.spawn(t)
		t.Logf("a restarted device serves again after %s", holds(t, "it is back", met))
		b.reaches(t, "m")
	})
}

// reaches asks for a model of another device that has just come back. As long as there is no way to it yet, that is told: of the
// device, and while nothing is sent there until it has been heard again, of all that have the model.
func (f *fellow) reaches(t *testing.T, model string) {
	t.Helper()
	took := holds(t, f.name+" is answered", func() bool {
		got := f.chat("", question(model, "healed", 2, false))
		told := slices.ContainsFunc([]string{"member_silent", "member_unreachable", "model_not_ready", "model_not_found"}, func(code string) bool {
			return strings.Contains(got.body, `"code":"`+code+`"`)
		})
		if !got.complete(false) && !told {
			t.Fatalf("%+v", got)
		}
		return got.complete(false)
	})
	t.Logf("%s is answered after %s", f.name, took)
}

// expiry says it at once and again every 5 s: a device that is just opening its line to the test's control server can
// miss it.
func expiry(control *localcontrol.Control, expired bool) (say func()) {
	var last time.Time
	return func() {
		if time.Since(last) > 5*time.Second {
			last = time.Now()
			control.ExpireDevices(expired)
		}
	}
}

// TestLoginNeverFinished: whoever waits for its login serves its machine, shows where to log in, and joins after it.
func TestLoginNeverFinished(t *testing.T) {
	t.Parallel()
	control := localTailnet(t, localcontrol.Config{RequireLogin: true})
	engine := fakeEngine(t, enginetest.Options{Slots: 4, Model: "m"})
	a := tailnetFellow(t, control, "a", "", served("m", engine.URL(), 4))
	a.spawn(t)
	var w *status.Warning
	holds(t, "a login address", func() bool { w = a.warning("login"); return w != nil && strings.Contains(w.Fix, control.URL()) })
	holds(t, "its model is ready", func() bool { return a.sees("m") == 1 })
	if got := a.chat("", question("m", "x", 2, false)); !got.complete(false) {
		t.Errorf("%+v", got)
	}
	_, address, _ := strings.Cut(w.Fix, "open ")
	if !control.CompleteLogin(address) {
		t.Fatalf("nobody waits at %q", address)
	}
	holds(t, "the end of the warning", func() bool { return a.warning("login", "tailnet-login") == nil })
}

// secured is a mesh of two in this process; the second serves m.
func secured(t *testing.T, o enginetest.Options) (entry, owner *fellow, engine *enginetest.Server) {
	engine = fakeEngine(t, o)
	all := lanFellows(t, 2, func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{served("m", engine.URL(), o.Slots)}
	})
	for _, f := range all {
		f.secret = rightSecret
		f.here(t)
	}
	holds(t, "the two have met", func() bool { return all[0].sees("m") == 1 && all[1].member(all[0].name) == "alive" })
	return all[0], all[1], engine
}

func TestStrangersAreTurnedAway(t *testing.T) {
	t.Parallel()
	entry, owner, engine := secured(t, enginetest.Options{Slots: 2, Model: "m", KeepBodies: true})
	t.Run("a wrong secret", func(t *testing.T) {
		stranger := lanFellow(t, 5, served("own", engine.URL(), 2))
		stranger.secret, stranger.seeds = wrongSecret, []string{entry.seed()}
		stranger.here(t)
		holds(t, "the warning", func() bool { return stranger.warning("gossip-secret") != nil })
		holds(t, "its model", func() bool { return stranger.sees("own") == 1 })
		if stranger.sees("m") != 0 || entry.member(stranger.name) != "" {
			t.Error("it is in the mesh")
		}
		if got := stranger.chat("", question("own", "x", 2, false)); !got.complete(false) {
			t.Errorf("%+v", got)
		}
	})
	before := engine.Stats().Served
	t.Run("marks of a member without its signature", func(t *testing.T) {
		nonce, digest := strings.Repeat("A", 22), strings.Repeat("B", 43)
		now := fmt.Sprint(time.Now().UnixMilli())
		for name, h := range map[string][]string{
			"a hop":     {"X-Viiwork-Hop", "1"},
			"two hops":  {"X-Viiwork-Hop", "2"},
			"a sender":  {"X-Viiwork-From", "someone"},
			"a forgery": {"X-Viiwork-Hop", "1", "X-Viiwork-From", "someone", "X-Viiwork-To", "other", "X-Viiwork-Wire", "1", "X-Viiwork-Time", now, "X-Viiwork-Nonce", nonce, "X-Viiwork-Digest", digest, "X-Viiwork-Signature", digest},
		} {
			if got := owner.chat("", question("m", "x", 2, false), h...); got.status != http.StatusForbidden || got.header.Get("X-Viiwork-Refused") == "" {
				t.Errorf("%s: %d %v %.200s", name, got.status, got.err, got.body)
			}
		}
		answer, err := quick.Get(owner.url() + "/v1/capacity")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("a stranger asks for the capacity: %d", answer.StatusCode)
		}
	})
	t.Run("an address for a name", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var dialled sync.WaitGroup
		dialled.Go(func() {
			if c, err := l.Accept(); err == nil {
				c.Close()
				t.Error("the address was dialled")
			}
		})
		for _, host := range []string{l.Addr().String(), "http://" + l.Addr().String(), owner.host} {
			got := entry.chat("?host="+host, question("m", "x", 2, false))
			if got.status != http.StatusNotFound || !strings.Contains(got.body, "host_not_found") {
				t.Errorf("%s: %d %v %.200s", host, got.status, got.err, got.body)
			}
		}
		if got := entry.chat("?prefer="+l.Addr().String(), question("m", "x", 2, false)); !got.complete(false) {
			t.Errorf("an unknown preference: %d %v %.200s", got.status, got.err, got.body)
		}
		l.Close()
		dialled.Wait()
	})
	if after := engine.Stats().Served; after != before+1 {
		t.Errorf("%d requests ran, want the one with the unknown preference", after-before)
	}
}

// TestNewcomersThatMayNotStay end and say why; what runs does not notice, nor does it of one that comes and goes.
func TestNewcomersThatMayNotStay(t *testing.T) {
	t.Parallel()
	entry, owner, engine := secured(t, enginetest.Options{Slots: 2, Model: "m", ReplyTokens: 1 << 20})
	engine.SetFaults(enginetest.Faults{Slow: 20 * time.Millisecond})
	running := make(chan said, 1)
	go func() { running <- entry.chat("", question("m", "long", 1<<13, true)) }()
	holds(t, "it runs", func() bool { return engine.Stats().Active == 1 })

	namesake := lanFellow(t, 7)
	namesake.name, namesake.secret, namesake.seeds = owner.name, owner.secret, []string{entry.seed()}
	if err := namesake.runs(t); !errors.Is(err, serf.ErrNameTaken) || !strings.Contains(err.Error(), owner.seed()) {
		t.Errorf("a namesake ended with %v, want the name and %s", err, owner.seed())
	}
	squatter := lanFellow(t, 8)
	squatter.dir, squatter.secret = owner.dir, owner.secret
	if err := squatter.runs(t); err == nil || !strings.Contains(err.Error(), "node.state_dir") {
		t.Errorf("a second node in one state folder ended with %v", err)
	}
	guest := lanFellow(t, 9, served("m", engine.URL(), 2))
	guest.secret, guest.seeds = entry.secret, []string{entry.seed()}
	leave := guest.here(t)
	holds(t, "the guest is here", func() bool { return entry.sees("m") == 2 })
	if err := leave(); err != nil {
		t.Error(err)
	}
	holds(t, "the guest has left", func() bool { return entry.sees("m") == 1 })

	select {
	case got := <-running:
		t.Fatalf("the request ended early: %d %v %.200s", got.status, got.err, got.body[max(0, len(got.body)-200):])
	default:
	}
	engine.SetFaults(enginetest.Faults{}) // it has proved enough: let it end
	if got := <-running; !got.complete(true) || got.header.Get("X-Viiwork-Node") != owner.name {
		t.Errorf("the running request: %d %v %.200s", got.status, got.err, got.body[max(0, len(got.body)-200):])
	}
}
