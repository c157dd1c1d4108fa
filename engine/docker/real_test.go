package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"viiwork/engine"
	"viiwork/engine/docker"
	"viiwork/engine/enginetest"
)

const (
	testImage = "viiwork-engine:cpu"
	testKey   = "test-key"
)

// world is a node's state folder on a real Docker daemon.
type world struct {
	t        *testing.T
	cli      *client.Client
	node     string
	state    string
	uid, gid int
	models   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := cli.Ping(ctx); err != nil {
		t.Skipf("no Docker here: %v", err)
	}
	if _, err := cli.ImageInspect(ctx, testImage); err != nil {
		t.Skipf("no image %s here: %v", testImage, err)
	}
	w := &world{t: t, cli: cli, node: "t" + fmt.Sprint(os.Getpid()), state: t.TempDir(), models: t.TempDir(), uid: os.Getuid(), gid: os.Getgid()}
	if w.uid == 0 { // root proves nothing about owners
		w.uid, w.gid = 65534, 65534
	}
	if err := enginetest.WriteGGUF(filepath.Join(w.models, "m.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.nothingLeft)
	return w
}

func (w *world) runner() *docker.Runner {
	r := docker.New(docker.Config{Node: w.node, StateDir: w.state, UID: w.uid, GID: w.gid})
	w.t.Cleanup(func() { r.Close() })
	return r
}

// spec makes the files of a backend and describes it.
func (w *world) spec(backend string) engine.Spec {
	w.t.Helper()
	dir := filepath.Join(w.state, engine.SafeName(backend))
	slots, key := filepath.Join(dir, "slots"), filepath.Join(dir, "key")
	for _, err := range []error{
		os.MkdirAll(slots, 0o700),
		os.WriteFile(key, []byte(testKey), 0o600),
		os.Chown(slots, w.uid, w.gid),
		os.Chown(key, w.uid, w.gid),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return engine.Spec{
		Backend:  backend,
		Model:    engine.Model{Name: "m", Image: testImage},
		Args:     []string{"-m", filepath.Join(w.models, "m.gguf"), "-c", "2048", "-np", "1", "-t", "1", "--slot-save-path", slots, "--api-key-file", key},
		Bind:     bind,
		KeyFile:  key,
		SlotDir:  slots,
		ReadOnly: []string{w.models},
		Hash:     "hash of " + backend,
	}
}

func (w *world) start(r *docker.Runner, spec engine.Spec) engine.Process {
	w.t.Helper()
	p, err := r.Start(w.t.Context(), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// nothingLeft removes what a failing test has left, and fails it for that.
func (w *world) nothingLeft() {
	for _, c := range w.containers() {
		w.t.Errorf("container %v is left behind", c.Names)
		_ = w.cli.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true})
	}
}

func (w *world) containers() []container.Summary {
	list, err := w.cli.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "viiwork.node"))})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(c container.Summary) bool {
		return !strings.HasPrefix(c.Labels["viiwork.node"], w.node+"-")
	})
}

// call asks the engine; it keeps asking as long as it is loading when wait is set.
func call(ctx context.Context, base, path, body string) (int, string, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), err
}

func (w *world) ready(p engine.Process) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if code, _, err := call(ctx, p.Record().URL, "/health", ""); err == nil && code == http.StatusOK {
			return
		}
		time.Sleep(100 * time.Millisecond) // the engine tells nobody when it is ready
	}
	var log bytes.Buffer
	_ = p.Logs(context.Background(), &log, 20, false)
	w.t.Fatalf("the engine was not ready in a minute:\n%s", log.String())
}

func TestEngineIsConfinedToItsContainer(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	spec := w.spec("org/m#0")
	p := w.start(r, spec)
	w.ready(p)

	c, err := w.cli.ContainerInspect(t.Context(), p.Record().ID)
	if err != nil {
		t.Fatal(err)
	}
	if c.State.Pid != p.Record().PID || p.Record().PID == 0 {
		t.Errorf("pid %d, container's is %d", p.Record().PID, c.State.Pid)
	}
	for port, bound := range c.NetworkSettings.Ports {
		for _, b := range bound {
			if b.HostIP != "127.0.0.1" {
				t.Errorf("%s is published to %s", port, b.HostIP)
			}
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.State.Pid)); err == nil {
		for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", fmt.Sprintf("Uid:\t%d\t", w.uid)} {
			if !strings.Contains(string(status), want) {
				t.Errorf("%q does not hold for the engine", want)
			}
		}
	}
	if !c.HostConfig.ReadonlyRootfs {
		t.Error("the root file system is writable")
	}

	if code, text, err := call(t.Context(), p.Record().URL, "/completion", `{"prompt":"hello","n_predict":4}`); err != nil || code != http.StatusOK {
		t.Fatalf("completion: %d %s %v", code, text, err)
	}
	code, text, err := call(t.Context(), p.Record().URL, "/slots/0?action=save", `{"filename":"a.bin"}`)
	if err != nil || code != http.StatusOK {
		t.Fatalf("saving a slot: %d %s %v", code, text, err)
	}
	info, err := os.Stat(filepath.Join(spec.SlotDir, "a.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := ownerOf(info); ok && owner != w.uid {
		t.Errorf("the slot file belongs to %d, the node is %d", owner, w.uid)
	}
	if dir, err := os.Stat(spec.SlotDir); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("slot folder: %v %v; others could read conversations", dir.Mode(), err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list := w.containers(); len(list) > 0 {
		t.Errorf("%d containers left after Stop", len(list))
	}
}

func TestNextNodeAdoptsTheSameContainer(t *testing.T) {
	w := newWorld(t)
	p := w.start(w.runner(), w.spec("m#0"))

	found, err := w.runner().Find(t.Context())
	if err != nil || len(found) != 1 || found[0].Record() != p.Record() {
		t.Fatalf("found %v, %v; want the one of %+v", found, err, p.Record())
	}
	other := docker.New(docker.Config{Node: w.node, StateDir: t.TempDir(), UID: w.uid, GID: w.gid})
	defer other.Close()
	if strangers, err := other.Find(t.Context()); err != nil || len(strangers) > 0 {
		t.Errorf("a node over another state folder found %v, %v", strangers, err)
	}
	w.ready(found[0])
	if err := found[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		t.Errorf("the first node does not see the end: %v", err)
	}
}

func TestFailedEngineKeepsItsLogUntilStopped(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	spec := w.spec("m#0")
	spec.Args = append(spec.Args, "--nope")
	p := w.start(r, spec)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exit, err := p.Wait(ctx)
	if err != nil || exit.Code != 1 || exit.Reason != "exit status 1" {
		t.Errorf("exit %+v, %v; want status 1", exit, err)
	}
	var log bytes.Buffer
	if err := p.Logs(ctx, &log, -1, true); err != nil || !strings.Contains(log.String(), "--nope") {
		t.Errorf("log %q, %v; want the flag named", log.String(), err)
	}
	if len(w.containers()) != 1 {
		t.Error("the ended container is gone before its log was wanted")
	}
	// A node that comes up now clears it away.
	if found, err := w.runner().Find(t.Context()); err != nil || len(found) > 0 || len(w.containers()) > 0 {
		t.Errorf("found %v, %v, %d containers", found, err, len(w.containers()))
	}
	if again, err := p.Wait(ctx); err != nil || again != exit {
		t.Errorf("asked again after removal: %+v, %v", again, err)
	}
}

func TestEndedContainerMakesRoomForTheNext(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	spec := w.spec("m#0")
	spec.Args = []string{"--nope"}
	first := w.start(r, spec)
	if _, err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.start(r, w.spec("m#0"))
	if first.Record().ID == second.Record().ID {
		t.Error("the ended container was not replaced")
	}
	if _, err := r.Start(t.Context(), w.spec("m#0")); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second container of one backend: %v", err)
	}
}

func TestForeignContainersAreNotTouched(t *testing.T) {
	w := newWorld(t)
	r := w.runner()
	name := fmt.Sprintf("viiwork-%s-%s", w.node, engine.SafeName("m#0"))
	made, err := w.cli.ContainerCreate(t.Context(), &container.Config{Image: testImage, Cmd: []string{"--version"}}, nil, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	defer w.cli.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	if _, err := r.Start(t.Context(), w.spec("m#0")); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("the clash is not told: %v", err)
	}
	if found, err := r.Find(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := w.cli.ContainerInspect(t.Context(), made.ID); err != nil {
		t.Errorf("the stranger's container is gone: %v", err)
	}
}

func TestStopEndsAnEngineWithAnOpenStream(t *testing.T) {
	w := newWorld(t)
	p := w.start(w.runner(), w.spec("m#0"))
	w.ready(p)
	body := `{"prompt":"hello","n_predict":-1,"ignore_eos":true,"stream":true}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Record().URL+"/completion", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if list := w.containers(); len(list) > 0 {
		t.Errorf("%d containers left", len(list))
	}
}

func TestLogsFollowUntilTheCallerHasEnough(t *testing.T) {
	w := newWorld(t)
	p := w.start(w.runner(), w.spec("m#0"))
	w.ready(p)
	ctx, cancel := context.WithCancel(t.Context())
	log := writerFunc(func(text []byte) (int, error) {
		cancel()
		return len(text), nil
	})
	if err := p.Logs(ctx, log, 1, true); err != nil || ctx.Err() == nil {
		t.Errorf("following: %v, a line came: %t", err, ctx.Err() != nil)
	}
	var tail bytes.Buffer
	if err := p.Logs(t.Context(), &tail, 3, false); err != nil || strings.Count(tail.String(), "\n") != 3 {
		t.Errorf("the last 3 lines are %q, %v", tail.String(), err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
