package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"viiwork/update/updatetest"
)

const (
	swapCommit    = "0123456789abcdef0123456789abcdef01234567"
	swapPublisher = "github.com/owner/viiwork/.github/workflows/release.yml"
)

// shop is a publisher whose releases lie in the node's state directory, where its container sees them.
type shop struct {
	t      *testing.T
	sig    *updatetest.Sigstore
	b      boxed
	docker []string // how its Docker is called
	pack   string   // the program that makes releases
}

func openShop(t *testing.T, b boxed, docker ...string) shop {
	s := shop{t, updatetest.New(t), b, append([]string{"docker"}, docker...), filepath.Join(t.TempDir(), "pack")}
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", s.pack, "./viiwork/testdata/pack").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(s.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.root(), s.sig.Root(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.root(), 0o644); err != nil { // nodes of this process, if any ran, keep their files from others
		t.Fatal(err)
	}
	return s
}

func (s shop) dir() string  { return filepath.Join(s.b.dir, "state", "shop") }
func (s shop) root() string { return filepath.Join(s.b.dir, "state", "root.json") }

// publish offers a program as a version, with its proof.
func (s shop) publish(version string, program []byte) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "program")
	if err := os.WriteFile(path, program, 0o600); err != nil {
		s.t.Fatal(err)
	}
	index, err := exec.Command(s.pack, path, s.dir(), version, swapCommit, swapPublisher).Output()
	if err != nil {
		s.t.Fatalf("packing %s: %v", version, err)
	}
	by := updatetest.Run("owner/viiwork", version, swapCommit)
	subjects := map[string]string{"index": strings.TrimPrefix(string(index), "sha256:")}
	proof := s.sig.Sign(updatetest.Signing{Identity: by, Statement: updatetest.Provenance(by, subjects).JSON(s.t)})
	if err := os.WriteFile(filepath.Join(s.dir(), version+".sigstore.json"), proof, 0o644); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("chmod", "-R", "a+rX", s.dir()).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	s.t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "-f", "viiwork-node:"+version).Run() })
}

// order runs 'update' in the node's container.
func (s shop) order(name string, more ...string) (string, error) {
	args := append([]string{"exec", name, "/usr/bin/viiwork", "update", "--yes", "--source", s.dir(), "--trust-root", s.root()}, more...)
	out, err := s.command(args...).CombinedOutput()
	return string(out), err
}

func (s shop) command(args ...string) *exec.Cmd {
	all := append(s.docker[1:len(s.docker):len(s.docker)], args...)
	return exec.Command(s.docker[0], all...)
}

// names are those of the containers of a node, also of those that have ended.
func (s shop) names(node string) string {
	out, _ := s.command("ps", "-a", "--filter", "name="+node, "--format", "{{.Names}}").CombinedOutput()
	return strings.TrimSpace(string(out))
}

// alone waits until a node's container has no others beside it: the helper's last act is to remove itself.
func (s shop) alone(node string) {
	s.t.Helper()
	holds(s.t, "nothing but "+node+" is left", func() bool { return s.names(node) == node })
}

// ended waits until no swap goes on, and tells how the last one ended.
func (s shop) ended(version string) (last struct {
	Version, Why, Fault string
	Good                bool
	Drain               float64 `json:"drain_s"`
	Swap                float64 `json:"swap_s"`
}) {
	s.t.Helper()
	folder := filepath.Join(s.b.dir, "state", "swap")
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(folder, "plan.json")); err == nil {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(folder, "state.json"))
		var is struct{ Last any }
		is.Last = &last
		if json.Unmarshal(text, &is) == nil && last.Version == version {
			return last
		}
	}
	plan, _ := os.ReadFile(filepath.Join(folder, "plan.json"))
	log, _ := s.command("ps", "-a", "--format", "{{.Names}} {{.Status}}").CombinedOutput()
	s.t.Fatalf("the swap to %s does not end: %s\n%s", version, plan, log)
	return last
}

// idle is a program that says what it is, takes any configuration, and then does nothing.
func idle(t *testing.T, version string) []byte { return dummy(t, version, "time.Sleep(time.Hour)") }

// dummy is a program that says what it is, takes any configuration, and serves by doing something else.
func dummy(t *testing.T, version, serves string) []byte {
	t.Helper()
	dir := t.TempDir()
	source := fmt.Sprintf(`package main
import ("fmt"; "os"; "time")
var _ time.Duration
func main() {
	switch { case len(os.Args) > 1 && os.Args[1] == "version": fmt.Println(%q)
	case len(os.Args) > 1 && os.Args[1] == "serve": %s }
}`, `{"version":"`+version+`"}`, serves)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "idle"), filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "idle"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

const swapStamps = "-X main.version=v1.77.1 -X main.commit=" + swapCommit + " -X main.publisher=" + swapPublisher

// TestNodeInAContainerUpdatesItself: to a version that holds, while its helper is killed half-way, and not to one that does
// not. The engine beside it is the same container, in the same run, from the beginning to the end.
func TestNodeInAContainerUpdatesItself(t *testing.T) {
	b := stampedBox(t, swapStamps)
	s := openShop(t, b)
	first, err := os.ReadFile(b.program)
	if err != nil {
		t.Fatal(err)
	}
	next := bytes.ReplaceAll(first, []byte("v1.77.1"), []byte("v1.77.2")) // which is cheaper than another build
	s.publish("v1.77.2", next)
	s.publish("v1.77.3", idle(t, "v1.77.3"))
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "-f", "viiwork-node:v1.77.1").Run() })

	name := fmt.Sprintf("viiwork-test-%d", os.Getpid())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := exec.Command("docker", "logs", "--tail", "30", name).CombinedOutput()
			t.Logf("containers %s; the node's log:\n%s", s.names(name), log)
		}
		for _, end := range []string{".swap", ".next", ".prev", ""} {
			_ = exec.Command("docker", "rm", "-f", "-v", name+end).Run()
		}
	})
	run := append(b.args("host", filepath.Join(b.dir, "state")), "--detach", "--name", name, "--restart", "unless-stopped", b.image, "serve")
	old := dockerSays(t, run...)
	m := machine{child{url: b.url}, b.dir}
	waitReady(t, m.url)
	e := strings.TrimPrefix(m.model(t, "tiny").Backends[0].Process, "container ")
	const facts = "{{.Id}} {{.State.StartedAt}} {{.State.Pid}}"
	before := dockerSays(t, "inspect", "--format", facts, e)

	gap := silence(t, m.url)
	if out, err := s.order(name, "--to", "v1.77.2", "--watch", "2s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if pid := dockerSays(t, "inspect", "--format", "{{.State.Pid}}", name+".swap"); os.Getuid() == 0 && pid != "0" {
		_ = exec.Command("kill", "-9", pid).Run() // Docker starts it again
	}
	last := s.ended("v1.77.2")
	if !last.Good || last.Fault != "" || m.status(t).Version != "v1.77.2" {
		t.Fatalf("it ended with %+v, what runs is %s", last, m.status(t).Version)
	}
	t.Logf("the old one took %.1f s to end, the new one answered %.1f s after its start; nobody answered for %v", last.Drain, last.Swap, gap().Round(time.Millisecond))
	m.sameEngine(t, e)
	s.alone(name)
	if now := dockerSays(t, "inspect", "--format", "{{.Id}} {{.Config.User}} {{.HostConfig.RestartPolicy.Name}} {{.HostConfig.ReadonlyRootfs}}", name); strings.HasPrefix(now, old) ||
		!strings.HasSuffix(now, " "+b.user+" unless-stopped true") {
		t.Errorf("the container is %s", now)
	}

	if out, err := s.order(name, "--to", "v1.77.3", "--watch", "2s", "--patience", "6s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if last := s.ended("v1.77.3"); last.Good || !strings.Contains(last.Why, "does not answer") {
		t.Errorf("it ended with %+v", last)
	}
	m.sameEngine(t, e)
	s.alone(name)
	if is := m.status(t); is.Version != "v1.77.2" || !strings.Contains(fmt.Sprint(is.Warnings), "v1.77.3 was taken back") {
		t.Errorf("what runs is %s, with warnings %v", is.Version, is.Warnings)
	}
	if now := dockerSays(t, "inspect", "--format", facts, e); now != before {
		t.Errorf("the engine was %s, is %s", before, now)
	}
	t.Run("Docker", func(t *testing.T) { updateOverDockersRestarts(t, b, next) })
}

// silence asks all the time, until the returned function tells for how long nobody answered.
func silence(t *testing.T, url string) (most func() time.Duration) {
	stop, told := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		for heard := time.Now(); ; {
			select {
			case <-stop:
				told <- longest
				return
			case <-time.After(10 * time.Millisecond):
			}
			if answer, err := quick.Get(url + "/healthz"); err == nil {
				answer.Body.Close()
				longest, heard = max(longest, time.Since(heard)), time.Now()
			}
		}
	}()
	most = sync.OnceValue(func() time.Duration { close(stop); return <-told })
	t.Cleanup(func() { most() })
	return most
}

// sameEngine has the node answer from the engine of before.
func (m machine) sameEngine(t *testing.T, engine string) {
	t.Helper()
	waitReady(t, m.url)
	if code, text := m.chat(t, "tiny", false, 4); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if now := strings.TrimPrefix(m.model(t, "tiny").Backends[0].Process, "container "); now != engine {
		t.Errorf("the engine was %s, is %s", engine, now)
	}
}

// otherDocker is a Docker of the test's own, which may be ended.
type otherDocker struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

func (o *otherDocker) host() string { return "unix://" + filepath.Join(o.dir, "docker.sock") }

// start runs it and waits until it answers.
func (o *otherDocker) start() {
	o.t.Helper()
	at := func(name string) string { return filepath.Join(o.dir, name) }
	// In a network of its own: told to make no bridge, it would remove the machine's.
	o.cmd = exec.Command("unshare", "--net", "sh", "-c", `ip link set lo up && exec dockerd "$@"`, "dockerd", "--host", o.host(), "--data-root", at("data"), "--exec-root", at("exec"), "--pidfile", at("pid"),
		"--bridge", "none", "--iptables=false", "--ip-masq=false", "--group", groupOf(o.t, dockerSocket))
	log, err := os.OpenFile(at("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		o.t.Fatal(err)
	}
	defer log.Close()
	o.cmd.Stdout, o.cmd.Stderr = log, log
	if err := o.cmd.Start(); err != nil {
		o.t.Skipf("no dockerd here: %v", err)
	}
	for range 300 {
		if exec.Command("docker", "-H", o.host(), "version").Run() == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(at("log"))
	o.t.Skipf("a second dockerd does not come up here: %s", text[max(0, len(text)-500):])
}

func (o *otherDocker) end(signal os.Signal) {
	if o.cmd != nil && o.cmd.Process != nil {
		_ = o.cmd.Process.Signal(signal)
		_ = o.cmd.Wait()
		o.cmd = nil
	}
	if signal == os.Kill { // its containerd ends with it, and where nobody reaps that, the next one takes it for alive
		_ = os.Remove(filepath.Join(o.dir, "exec", "containerd", "containerd.pid"))
	}
}

// updateOverDockersRestarts ends Docker in an orderly way as soon as the helper runs, and kills it while the new version is
// watched. Once both are over the new version runs, alone.
func updateOverDockersRestarts(t *testing.T, b boxed, next []byte) {
	if os.Getuid() != 0 {
		t.Skip("needs root to run a Docker of its own")
	}
	dir, err := os.MkdirTemp("", "vwd") // its sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("umount", "-l", filepath.Join(dir, "data")).Run() // where it was killed
		_ = os.RemoveAll(dir)
	})
	other := &otherDocker{t: t, dir: dir}
	b.t, b.dir = t, furnish(t, "  []\n")
	b.image = "viiwork-node:v1.77.1" // the other name has moved
	if err := os.Mkdir(filepath.Join(b.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "-R", b.user, b.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	other.start()
	s := openShop(t, b, "-H", other.host())
	s.publish("v1.77.2", next)
	name := "viiwork-other"
	t.Cleanup(func() {
		ids, _ := s.command("ps", "-aq").Output()
		_ = s.command(append([]string{"rm", "-f", "-v"}, strings.Fields(string(ids))...)...).Run()
		other.end(syscall.SIGTERM)
	})
	hand := fmt.Sprintf("docker save %s | docker -H %s load", b.image, other.host())
	if out, err := exec.Command("sh", "-c", hand).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := s.command(append(b.argsAt(filepath.Join(other.dir, "docker.sock")), "--detach", "--name", name, "--restart", "unless-stopped", b.image, "serve")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	node := func() string { // its version; "" = it does not answer
		answer, err := socketClient(b.dir).Get("http://viiwork/v1/status")
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		var is struct{ Version string }
		_ = json.NewDecoder(answer.Body).Decode(&is)
		return is.Version
	}
	await := func(version string) {
		t.Helper()
		for range 600 {
			if node() == version {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		log, _ := s.command("logs", name).CombinedOutput()
		t.Fatalf("what answers is %q, not %s; containers %s\n%s", node(), version, s.names(name), log)
	}
	await("v1.77.1")
	if out, err := s.order(name, "--to", "v1.77.2", "--watch", "4s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	other.end(syscall.SIGTERM)
	other.start()
	await("v1.77.2")
	other.end(os.Kill)
	other.start()
	if last := s.ended("v1.77.2"); !last.Good || last.Fault != "" {
		t.Errorf("it ended with %+v", last)
	}
	s.alone(name)
	await("v1.77.2")
}
