package appliance_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// traffic is clients that ask without a pause through some entries.
type traffic struct {
	answered atomic.Int64
	stop     func()
}

// under starts three clients at each entry; none of their requests may fail.
func under(t *testing.T, entries ...*fellow) *traffic {
	l := &traffic{}
	over := make(chan struct{})
	var clients sync.WaitGroup
	for _, f := range entries {
		for c := range 3 {
			clients.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-over:
						return
					default:
					}
					if got := f.chat("", question("m", fmt.Sprint(c, i), 5, c == 0)); !got.complete(c == 0) {
						t.Errorf("lost through %s: %d %v %.300s", f.name, got.status, got.err, got.body)
					}
					l.answered.Add(1)
				}
			})
		}
	}
	l.stop = sync.OnceFunc(func() { close(over); clients.Wait() })
	t.Cleanup(l.stop)
	return l
}

// goesOn waits until n more requests were answered.
func (l *traffic) goesOn(t *testing.T, n int64) {
	t.Helper()
	from := l.answered.Load()
	holds(t, "requests are answered", func() bool { return l.answered.Load() >= from+n })
}

// rotate is what 'viiwork join-code --rotate' asks of f.
func (f *fellow) rotate(t *testing.T) (done *status.Rotated, steps []string, fault string) {
	t.Helper()
	answer, err := socketClient(f.dir).Post("http://localhost/api/secret/rotate", "application/json", strings.NewReader("{}"))
	if err != nil {
		return nil, nil, err.Error()
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, nil, answer.Status
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var line status.Rotation
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Done != nil:
			done = line.Done
		case line.Error != "":
			fault = line.Error
		default:
			steps = append(steps, line.Member+" "+line.Step+" "+line.Fault)
		}
	}
	return done, steps, fault
}

// kept is the secret in f's state folder, as text for a variable.
func (f *fellow) kept(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "state", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Secret []byte }
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s.Secret
}

// trio is three nodes in processes of their own that all know each other; all but the first serve m.
func trio(t *testing.T, secret string) []*fellow {
	engine := fakeEngine(t, enginetest.Options{Slots: 32, Model: "m", DecodeTPS: 400})
	all := lanFellows(t, 3, func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{served("m", engine.URL(), 16)}
	})
	for i, f := range all {
		f.secret = secret
		f.seeds = nil
		for j, other := range all {
			if j != i {
				f.seeds = append(f.seeds, other.seed())
			}
		}
		f.spawn(t)
	}
	whole(t, all...)
	return all
}

// whole waits until everyone sees the model and everyone.
func whole(t *testing.T, all ...*fellow) {
	t.Helper()
	holds(t, "all see all", func() bool {
		for _, f := range all {
			if f.sees("m") != 2 {
				return false
			}
			for _, other := range all {
				if f.member(other.name) != "alive" {
					return false
				}
			}
		}
		return true
	})
}

// TestSecretIsReplacedUnderLoad: no request fails; who has the old secret only is refused afterwards and named; the new code lets in.
func TestSecretIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	all := trio(t, rightSecret)
	l := under(t, all...)
	l.goesOn(t, 50)
	done, steps, fault := all[1].rotate(t)
	if done == nil || len(done.Members) != 3 || done.Members[0] != all[1].name || fault != "" {
		t.Fatalf("%+v, %s, %v", done, fault, steps)
	}
	l.goesOn(t, 50)
	for _, f := range all {
		if s := f.kept(t); string(s) != string(all[0].kept(t)) {
			t.Errorf("%s has another secret", f.name)
		}
		if w := f.warning("secret_rotation", "secret_file", "gossip-secret", "mesh_secret"); w != nil {
			t.Errorf("%s warns %+v", f.name, w)
		}
	}
	t.Logf("%d requests answered, none lost", l.answered.Load())

	stranger := lanFellow(t, 5, served("own", "http://127.0.0.1:9", 2))
	stranger.secret, stranger.seeds = rightSecret, []string{all[0].seed()}
	stranger.spawn(t)
	holds(t, "the old secret is named", func() bool { return stranger.warning("gossip-secret") != nil })
	if stranger.sees("m") != 0 || all[0].sees("own") != 0 {
		t.Error("the old secret still lets in")
	}
	guest := lanFellow(t, 6)
	guest.knows(all[0].kept(t))
	guest.seeds = []string{all[0].seed()}
	guest.spawn(t)
	holds(t, "the new secret lets in", func() bool { return guest.sees("m") == 2 && all[2].member(guest.name) == "alive" })
	if got := guest.chat("", question("m", "x", 5, false)); !got.complete(false) {
		t.Errorf("%+v", got)
	}
	l.stop()
}

// newSecret is the variable for a secret that a test comes to know.
const newSecret = "VIIWORK_TEST_NEW"

// knows gives a node that is to start a secret in a variable of its own.
func (f *fellow) knows(secret []byte) {
	f.secret, f.environ = newSecret, append(f.environ, newSecret+"="+base64.StdEncoding.EncodeToString(secret))
}

// TestLeadIsKilledUnderLoad at a step of its way: the others go on, and the next run finishes, on another node.
func TestLeadIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"accept", "use"} {
		t.Run(step, func(t *testing.T) {
			all := trio(t, rightSecret)
			l := under(t, all[1:]...)
			l.goesOn(t, 20)
			answer, err := socketClient(all[0].dir).Post("http://localhost/api/secret/rotate", "application/json", nil)
			if err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(answer.Body); lines.Scan() && !strings.Contains(lines.Text(), `"n01","step":"`+step+`"`); {
			}
			all[0].kill()
			answer.Body.Close()
			l.goesOn(t, 50)
			holds(t, "gossip has noticed", func() bool { return all[1].member(all[0].name) == "failed" && all[2].member(all[0].name) == "failed" })
			if done, steps, fault := all[1].rotate(t); done == nil && !strings.Contains(fault, "try again in") { // it may have come to its end
				t.Fatalf("%s, %v", fault, steps)
			}
			l.goesOn(t, 20)
			all[0].spawn(t) // it has both, and goes on where the others are
			whole(t, all...)
			holds(t, "it has followed", func() bool { return all[0].warning("secret_rotation") == nil })
			if string(all[0].kept(t)) != string(all[2].kept(t)) {
				t.Error("it has another secret")
			}
			l.goesOn(t, 20)
			l.stop()
		})
	}
}

// TestTwoLeadsEndWithOneSecret: both are started at one time, under load.
func TestTwoLeadsEndWithOneSecret(t *testing.T) {
	t.Parallel()
	all := trio(t, rightSecret)
	l := under(t, all...)
	l.goesOn(t, 20)
	var leads sync.WaitGroup
	var ended atomic.Int64
	for _, f := range all[:2] {
		leads.Go(func() {
			done, steps, fault := f.rotate(t)
			if done != nil {
				ended.Add(1)
			}
			t.Logf("%s: %+v %s %v", f.name, done, fault, steps)
		})
	}
	leads.Wait()
	l.goesOn(t, 20)
	l.stop()
	if ended.Load() == 0 {
		t.Error("neither ended well")
	}
	for _, f := range all {
		if string(f.kept(t)) != string(all[0].kept(t)) || f.warning("secret_rotation") != nil {
			t.Errorf("%s has another secret, or an unfinished one", f.name)
		}
	}
}

// TestWhoWasAwayComesBackWithTheNewSecret; who had accepted it before it went comes back as it is, even when the others have forgotten
// the old one.
func TestWhoWasAwayComesBackWithTheNewSecret(t *testing.T) {
	t.Parallel()
	all := trio(t, rightSecret)
	away, missed := all[0], all[1]
	away.kill()
	holds(t, "gossip has noticed", func() bool { return all[1].member(away.name) == "failed" && all[2].member(away.name) == "failed" })
	done, steps, fault := all[2].rotate(t)
	if done == nil || len(done.Away) != 1 || done.Away[0] != away.name {
		t.Fatalf("%+v %s %v", done, fault, steps)
	}
	// The one has forgotten the old secret, the other was gone before it heard that the new one is used.
	edit(t, all[2], func(s map[string]any) { delete(s, "prev") })
	edit(t, missed, func(s map[string]any) { s["stage"] = "accept" })
	all[2].spawn(t)
	missed.spawn(t)
	holds(t, "it comes in with what it has", func() bool { return missed.sees("m") == 2 && all[2].sees("m") == 2 })
	holds(t, "it has followed", func() bool { return missed.warning("secret_rotation") == nil })

	away.spawn(t)
	holds(t, "the old secret is named", func() bool { return away.warning("gossip-secret") != nil })
	away.leave()
	away.knows(all[2].kept(t))
	away.spawn(t)
	whole(t, all...)
}

// edit ends the node and changes its kept secret.
func edit(t *testing.T, f *fellow, change func(map[string]any)) {
	t.Helper()
	f.leave()
	path := filepath.Join(f.dir, "state", "secret")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	change(s)
	if text, err = json.Marshal(s); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOpenMeshHasNothingToReplace, and says what to do instead; nor may anyone but this machine's commands ask for it.
func TestOpenMeshHasNothingToReplace(t *testing.T) {
	f := lanFellow(t, 3)
	f.here(t)
	holds(t, "it has its place", func() bool { _, _, fault := f.rotate(t); return !strings.HasPrefix(fault, "503") })
	if _, _, fault := f.rotate(t); !strings.HasPrefix(fault, "409") {
		t.Errorf("got %s", fault)
	}
	answer, err := quick.Post(f.url()+"/api/secret/rotate", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("from the network: %d", answer.StatusCode)
	}
}

// restart brings another secret to each node in turn, while requests run through the others and, before and after, through it.
func restart(t *testing.T, all []*fellow, secret string) {
	t.Helper()
	for _, f := range all {
		var others []*fellow
		for _, other := range all {
			if other != f {
				others = append(others, other)
			}
		}
		l := under(t, others...)
		l.goesOn(t, 20)
		f.leave()
		f.secret = secret
		f.spawn(t)
		whole(t, all...)
		own := under(t, f)
		own.goesOn(t, 20)
		l.goesOn(t, 20)
		own.stop()
		l.stop()
	}
}

// TestSecretIsReplacedByHand: each node is restarted with the new secret beside the old one, then with the new one alone.
func TestSecretIsReplacedByHand(t *testing.T) {
	t.Parallel()
	all := trio(t, rightSecret)
	restart(t, all, wrongSecret+", secret_prev_env: "+rightSecret)
	restart(t, all, wrongSecret)
	for _, f := range all {
		if w := f.warning("secret_rotation", "secret_file", "mesh_secret"); w != nil {
			t.Errorf("%s warns %+v", f.name, w)
		}
	}
}

// TestOpenMeshGetsASecret in three rounds of restarts.
func TestOpenMeshGetsASecret(t *testing.T) {
	t.Parallel()
	all := trio(t, "")
	restart(t, all, rightSecret+", secret_enforce: none")
	restart(t, all, rightSecret+", secret_enforce: outgoing")
	restart(t, all, rightSecret)
}
