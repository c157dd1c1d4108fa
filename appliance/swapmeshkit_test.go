package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// boxWatch is for how long a version that proved itself is watched here, in place of a minute.
const boxWatch = 2 * time.Second

// boxMate is a node of a mesh in a container.
type boxMate struct {
	*mate
	box    string // its container's name; "" = it is in none, but in this process
	engine string // its engine's, and what tells one run of that from another
	run    string
}

// boxFleet is a mesh of containers, with two machines that have none.
type boxFleet struct {
	t    *testing.T
	b    boxed // what they have in common; its folder holds the releases
	shop shop
	all  []*boxMate
}

// newBoxFleet starts five nodes of v1.77.1. The first two serve tiny, each by an engine beside it; the third and the fourth are in no
// container, and the fourth stays as it is.
func newBoxFleet(t *testing.T, publish func(shop, []byte)) *boxFleet {
	t.Helper()
	needEngineImage(t)
	if _, err := os.Stat(dockerSocket); err != nil || os.Getenv("DOCKER_HOST") != "" || os.Getuid() != 0 {
		t.Skip("needs root, and Docker at " + dockerSocket)
	}
	fl := &boxFleet{t: t, b: boxed{t: t, dir: t.TempDir(), user: "65534:65534"}}
	begun := time.Now()
	fl.b.image, fl.b.program = nodeImage(t, swapStamps)
	t.Logf("the program and its image were made in %v", time.Since(begun).Round(time.Second))
	program, err := os.ReadFile(fl.b.program)
	if err != nil {
		t.Fatal(err)
	}
	fl.shop = openShop(t, fl.b)
	publish(fl.shop, program)
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "-f", "viiwork-node:v1.77.1").Run() })
	right, _ := secrets(t)
	for i, f := range lanFellows(t, 5, func(int) []string { return nil }) {
		f.name, f.secret, f.drain = fmt.Sprintf("box%d-%d", i, os.Getpid()), right, "5s"
		f.more = fmt.Sprintf("update: {source: %q}\n", fl.shop.dir())
		if i < 2 {
			f.models = []string{fmt.Sprintf("  - {name: tiny, path: %q, context: 4096, parallel: 2, llamacpp: {runner: docker, image: cpu, prompt_cache: 64MiB}}\n", filepath.Join(f.dir, "tiny.gguf"))}
		}
		m := &boxMate{mate: &mate{fellow: f, t: t, fleet: &fleet{t: t, at: map[string]bool{}}, fate: "good", trial: time.Second, serves: "v1.77.1"}}
		switch i {
		case 2:
		case 3:
			m.is.Refuses = "its program belongs to another program"
		default:
			m.box = fmt.Sprintf("viiwork-node%d-%d", i, os.Getpid()) // engines have names after the node's
		}
		fl.all = append(fl.all, m)
	}
	for _, m := range fl.all {
		fl.furnish(m)
		fl.start(m)
	}
	for i, m := range fl.all {
		holds(t, m.name+" sees all", func() bool { return m.alive() == 5 && m.sees("tiny") == 2 })
		if i < 2 {
			m.engine = strings.TrimPrefix(machine{child{url: m.url()}, m.dir}.model(t, "tiny").Backends[0].Process, "container ")
			m.run = fl.runs(m.engine)
		}
	}
	var hurrying sync.WaitGroup
	hurrying.Go(func() { fl.hurry(t.Context().Done()) })
	t.Cleanup(hurrying.Wait)
	return fl
}

// furnish writes what a setup leaves on a machine, and what it would have fetched and heard since.
func (fl *boxFleet) furnish(m *boxMate) {
	fl.t.Helper()
	for _, other := range fl.all {
		if other != m {
			m.seeds = append(m.seeds, other.seed())
		}
	}
	slices.Sort(m.seeds)
	m.seeds = slices.Compact(m.seeds)
	state := filepath.Join(m.dir, "state")
	keys, err := json.Marshal(map[string]any{"fetched": time.Now(), "root": json.RawMessage(fl.shop.sig.Root())})
	for _, err := range []error{
		err,
		os.MkdirAll(filepath.Join(state, "trust"), 0o700),
		os.WriteFile(filepath.Join(m.dir, "viiwork.yaml"), []byte(m.file()), 0o600),
		os.WriteFile(filepath.Join(state, "trust", "trusted_root.json"), keys, 0o600),
		os.WriteFile(filepath.Join(state, "meshlock.json"), []byte(`{"term":0,"note":{"term":0,"number":0}}`), 0o600), // else its voice is silent for two minutes
		enginetest.WriteGGUF(filepath.Join(m.dir, "tiny.gguf"), enginetest.GGUFOptions{}),
	} {
		if err != nil {
			fl.t.Fatal(err)
		}
	}
	if m.box == "" {
		return
	}
	if out, err := exec.Command("chown", "-R", fl.b.user, m.dir).CombinedOutput(); err != nil {
		fl.t.Fatalf("%v: %s", err, out)
	}
}

func (fl *boxFleet) start(m *boxMate) {
	fl.t.Helper()
	if m.box == "" {
		m.start()
		fl.t.Cleanup(func() { m.later.Wait(); m.end() })
		return
	}
	fl.t.Cleanup(func() {
		if fl.t.Failed() {
			log, _ := exec.Command("docker", "logs", "--tail", "40", m.box).CombinedOutput()
			fl.t.Logf("containers %s; the log of %s:\n%s", fl.shop.names(m.box), m.name, log)
		}
		for _, end := range []string{".swap", ".next", ".prev", ""} {
			_ = exec.Command("docker", "rm", "-f", "-v", m.box+end).Run()
		}
		if m.engine != "" {
			_ = exec.Command("docker", "rm", "-f", "-v", m.engine).Run()
		}
	})
	at := fl.b
	at.dir = m.dir
	env := environ()
	secret := env[slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, m.secret+"=") })]
	run := append(at.args("host", filepath.Join(m.dir, "state")), "-v", fl.shop.dir()+":"+fl.shop.dir()+":ro", "-e", secret,
		"--detach", "--name", m.box, "--restart", "unless-stopped", fl.b.image, "serve")
	dockerSays(fl.t, run...)
}

// runs tells one run of a container from all others.
func (fl *boxFleet) runs(container string) string {
	return dockerSays(fl.t, "inspect", "--format", "{{.Id}} {{.State.StartedAt}} {{.State.Pid}}", container)
}

// hurry shortens the watch of each swap that begins, until done.
func (fl *boxFleet) hurry(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for _, m := range fl.all {
			shorten(filepath.Join(m.dir, "state", "swap"))
		}
	}
}

// shorten changes a plan under its lock, as its helper does.
func shorten(folder string) {
	path := filepath.Join(folder, "plan.json")
	watch := fmt.Appendf(nil, `"watch_s": %d,`, int(boxWatch/time.Second))
	if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, watch) {
		return
	}
	lock, err := os.OpenFile(filepath.Join(folder, "plan.lock"), os.O_RDWR, 0)
	if err != nil {
		return // the helper has not begun
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) != nil {
		return
	}
	if text, err := os.ReadFile(path); err == nil {
		_ = os.WriteFile(path, bytes.Replace(text, []byte(`"watch_s": 60,`), watch, 1), 0o600)
	}
}

// versions are what answers, by node.
func (fl *boxFleet) versions() (all []string) {
	for _, m := range fl.all {
		var is status.Node
		m.read("/v1/status", &is)
		all = append(all, is.Version)
	}
	return all
}

// says runs 'viiwork update --mesh' in a node's container.
func (fl *boxFleet) says(m *boxMate, more ...string) (string, error) {
	out, err := exec.Command("docker", append([]string{"exec", m.box, "/usr/bin/viiwork", "update", "--mesh"}, more...)...).CombinedOutput()
	return string(out), err
}

// swapping reports whether a plan is there by which a helper replaces the node's container.
func (m *boxMate) swapping() bool {
	_, err := os.Stat(filepath.Join(m.dir, "state", "swap", "plan.json"))
	return err == nil
}

// kill ends the node as 'docker kill' does, which lets Docker not start it again, and starts it as its owner does, unless it
// is about to be replaced: then a helper does. It reports whether there was something to kill.
func (fl *boxFleet) kill(m *boxMate, id string) bool {
	fl.t.Helper()
	if exec.Command("docker", "kill", id).Run() != nil {
		return false
	}
	for range 30 {
		if !m.swapping() {
			dockerSays(fl.t, "start", m.box)
			return true
		}
		if dockerSays(fl.t, "ps", "-q", "--filter", "name=^"+m.box+`\.swap$`) != "" {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	dockerSays(fl.t, "start", m.box) // and it starts its helper
	return true
}

// step is what a roll-out is at: whose turn it is, and the first word of what it does, without the figures.
func step(r status.Rollout) string {
	for _, m := range r.Members {
		if m.State == "updating" {
			act, _, _ := strings.Cut(m.Act, ":")
			return m.Name + " " + act
		}
	}
	return r.Stage
}

// killing follows a roll-out and kills who leads at each step that is seen for the first time, but while it is on trial itself.
func (fl *boxFleet) killing(lead *boxMate, version string) (killed []string) {
	fl.t.Helper()
	seen := map[string]bool{}
	client := socketClient(lead.dir)
	client.Timeout = 5 * time.Second
	old := dockerSays(fl.t, "inspect", "--format", "{{.Id}}", lead.box)
	kill := func(at, id string) {
		if seen[at] = true; fl.kill(lead, id) {
			killed = append(killed, at)
		}
	}
	for begun := time.Now(); time.Since(begun) < 5*longWait; time.Sleep(10 * time.Millisecond) {
		own := lead.swapping()
		if at := lead.name + " beside its helper"; own && !seen[at] {
			kill(at, old)
		}
		answer, err := client.Get("http://localhost/api/update/mesh")
		if err != nil {
			continue
		}
		var r status.Rollout
		err = json.NewDecoder(answer.Body).Decode(&r)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || r.Version != version {
			continue
		}
		if r.Stage != "running" {
			if r.Stage != "ended" {
				fl.t.Errorf("it has %s: %s", r.Stage, r.Why)
			}
			return killed
		}
		if at := step(r); !seen[at] && at != "running" && !own && !lead.swapping() {
			kill(at, lead.box)
		}
	}
	fl.t.Fatalf("it does not end; who leads was killed at %q", killed)
	return nil
}
