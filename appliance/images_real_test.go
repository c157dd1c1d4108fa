package appliance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/engine/docker"
	"viiwork/images"
	"viiwork/images/imagestest"
)

// needEngineImage skips where Docker or its engine image is missing.
func needEngineImage(t *testing.T) { t.Helper(); runners["docker"](t) }

// dockerSays runs one docker command and returns what it prints.
func dockerSays(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// shelf is a stock over the real Docker, with a node's book.
func shelf(t *testing.T, dir string) *images.Stock {
	t.Helper()
	book, err := images.OpenBook(filepath.Join(dir, "state", "images.json"))
	if err != nil {
		t.Fatal(err)
	}
	runner := docker.New(docker.Config{Node: "real", StateDir: filepath.Join(dir, "state"), UID: os.Getuid(), GID: os.Getgid()})
	t.Cleanup(func() { runner.Close() })
	return images.New(images.Config{Docker: runner, Book: book})
}

// forgetImages takes the names of a registry's images from Docker, and with them what nothing else holds.
func forgetImages(t *testing.T, r *imagestest.Registry) {
	t.Cleanup(func() {
		for _, format := range []string{"{{.Repository}}:{{.Tag}}", "{{.Repository}}@{{.Digest}}"} {
			out, _ := exec.Command("docker", "images", "--digests", "--format", format, r.Host+"/*").Output()
			for _, name := range strings.Fields(string(out)) {
				if !strings.Contains(name, "<none>") {
					_ = exec.Command("docker", "image", "rm", name).Run()
				}
			}
		}
	})
}

// TestEngineRunsFromTheImageThatWasChecked fetches a real engine's image from a registry by digest, and lets a node run it.
func TestEngineRunsFromTheImageThatWasChecked(t *testing.T) {
	needEngineImage(t)
	r := imagestest.New(t)
	forgetImages(t, r)
	saved := filepath.Join(t.TempDir(), "engine.tar")
	dockerSays(t, "save", "-o", saved, engineImage)
	digest := r.Saved("engine:v1", saved)
	image := r.Ref("engine:v1")
	dir := furnish(t, fmt.Sprintf("  - {name: tiny, path: tiny.gguf, context: 2048, parallel: 1, llamacpp: {runner: docker, image: %q, prompt_cache: 64MiB}}\n", image))
	held, err := shelf(t, dir).Pull(t.Context(), images.Order{Image: image})
	if err != nil {
		t.Fatal(err)
	}
	if id := dockerSays(t, "image", "inspect", "--format", "{{.Id}}", image); held.Digest != digest || held.ID != id {
		t.Errorf("held %+v; digest is %s, Docker's id %s", held, digest, id)
	}
	// Whoever moves the name on this machine moves nothing.
	dockerSays(t, "tag", dockerSays(t, "import", "-c", `ENTRYPOINT ["/nothing"]`, emptyTar(t)), image)

	m := boot(t, dir)
	waitReady(t, m.url)
	if code, text := m.chat(t, "tiny", false, 4); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	container := strings.TrimPrefix(m.model(t, "tiny").Backends[0].Process, "container ")
	if got := dockerSays(t, "inspect", "--format", "{{.Image}}", container); got != held.ID {
		t.Errorf("the engine runs from %s, checked was %s", got, held.ID)
	}
	for _, w := range m.status(t).Warnings {
		if w.ID == "image" {
			t.Errorf("warned of %s", w.Text)
		}
	}
}

func emptyTar(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.tar")
	if err := os.WriteFile(path, make([]byte, 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReloadTakesTheImageThatWasFetchedSince: the file has not changed, what its image stands for has.
func TestReloadTakesTheImageThatWasFetchedSince(t *testing.T) {
	needEngineImage(t)
	r := imagestest.New(t)
	forgetImages(t, r)
	image, saved := r.Ref("engine:v1"), filepath.Join(t.TempDir(), "engine.tar")
	other := fmt.Sprintf("viiwork-test/engine:%d", os.Getpid())
	build := exec.Command("docker", "build", "--quiet", "-t", other, "-")
	build.Stdin = strings.NewReader("FROM " + engineImage + "\nLABEL viiwork.test=1\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "-f", other).Run() })
	dir := furnish(t, fmt.Sprintf("  - {name: tiny, path: tiny.gguf, context: 2048, parallel: 1, llamacpp: {runner: docker, image: %q, prompt_cache: 64MiB}}\n", image))
	cfg, err := config.Load(filepath.Join(dir, "viiwork.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	node, err := appliance.New(cfg, appliance.Options{Version: "test", StopEngines: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{engineImage, other} {
		dockerSays(t, "save", "-o", saved, name)
		held, err := shelf(t, dir).Pull(t.Context(), images.Order{Image: image, Digest: r.Saved("engine:v1", saved)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := node.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		runsFrom(t, node, held.ID)
	}
}

// runsFrom waits until the node's only engine is ready and runs from the image of this id.
func runsFrom(t *testing.T, node *appliance.Appliance, id string) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(longWait); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		b := node.Status().Models[0].Backends[0]
		if b.State != "ready" {
			last = b.State + " " + b.Error
			continue
		}
		out, _ := exec.Command("docker", "inspect", "--format", "{{.Image}}", strings.TrimPrefix(b.Process, "container ")).CombinedOutput()
		if last = strings.TrimSpace(string(out)); last == id {
			return
		}
	}
	t.Fatalf("no engine runs from %s; the last thing seen was %s", id, last)
}

// TestUncheckedImageIsWarnedOf: it runs all the same.
func TestUncheckedImageIsWarnedOf(t *testing.T) {
	needEngineImage(t)
	dir := furnish(t, "  - {name: tiny, path: tiny.gguf, context: 2048, parallel: 1, llamacpp: {runner: docker, image: cpu, prompt_cache: 64MiB}}\n")
	m := boot(t, dir)
	waitReady(t, m.url)
	for _, w := range m.status(t).Warnings {
		if w.ID == "image" && strings.Contains(w.Text, engineImage) && w.Fix != "" {
			return
		}
	}
	t.Errorf("no warning of the image in %+v", m.status(t).Warnings)
}

// TestRealDockerLeavesNothingOfABadPull lets the daemon itself meet a registry that misbehaves.
func TestRealDockerLeavesNothingOfABadPull(t *testing.T) {
	needEngineImage(t)
	for name, c := range map[string]struct {
		order func(r *imagestest.Registry) images.Order
		want  string
	}{
		"a layer is another": {func(r *imagestest.Registry) images.Order {
			r.LieLayers.Store(true)
			return images.Order{Image: r.Ref("engine:v1")}
		}, "gave other bytes"},
		"a manifest is another": {func(r *imagestest.Registry) images.Order {
			r.LieManifests.Store(true)
			return images.Order{Image: r.Ref("engine:v1")}
		}, "something else than what was asked for"},
		"no such digest": {func(r *imagestest.Registry) images.Order {
			return images.Order{Image: r.Ref("engine:v1"), Digest: "sha256:" + strings.Repeat("5", 64)}
		}, "check the name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := imagestest.New(t)
			forgetImages(t, r)
			r.Random("engine:v1")
			dir := t.TempDir()
			_, err := shelf(t, dir).Pull(t.Context(), c.order(r))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q", err, c.want)
			}
			if left := dockerSays(t, "images", "--digests", "-q", r.Host+"/*"); left != "" {
				t.Errorf("left in Docker: %s", left)
			}
			if _, err := os.Stat(filepath.Join(dir, "state", "images.json")); err == nil {
				t.Error("something was remembered")
			}
		})
	}
}

// TestRealDockerGoesOnAfterACut: a transfer that broke off is made again by Docker itself, and a moved tag is refused.
func TestRealDockerGoesOnAfterACut(t *testing.T) {
	needEngineImage(t)
	r := imagestest.New(t)
	forgetImages(t, r)
	old, dir := r.Random("engine:v1"), t.TempDir()
	r.Cut.Store(1)
	var last, total int64
	held, err := shelf(t, dir).Pull(t.Context(), images.Order{Image: r.Ref("engine:v1"), Tell: func(done, all int64) { last, total = done, all }})
	if err != nil || held.Digest != old || r.Cut.Load() != 0 {
		t.Fatalf("held %+v, %v, %d cuts left", held, err, r.Cut.Load())
	}
	if last != total || total == 0 {
		t.Errorf("the progress ended at %d of %d", last, total)
	}
	r.Random("engine:v1")
	if _, err := shelf(t, dir).Pull(t.Context(), images.Order{Image: r.Ref("engine:v1")}); !errors.Is(err, images.ErrMoved) {
		t.Errorf("a moved tag: %v", err)
	}
}
