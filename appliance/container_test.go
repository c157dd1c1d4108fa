package appliance_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const dockerSocket = "/var/run/docker.sock"

// nodeImage builds the program with more flags of the linker and, from the Dockerfile, the image of it that needs no base; the
// test's end removes it. The program itself is at the second place.
func nodeImage(t *testing.T, flags string) (image, program string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := linked(flags)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "bin", "viiwork"), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{filepath.Join(folder, "bin"), filepath.Join(folder, "bin", "viiwork")} { // engines that tests start meanwhile are given another umask
		if err := os.Chmod(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, filepath.Join("..", "Dockerfile"), filepath.Join(folder, "Dockerfile"))
	if err := os.WriteFile(filepath.Join(folder, "bin", "ca-certificates.crt"), nil, 0o644); err != nil { // a LAN needs none
		t.Fatal(err)
	}
	name := fmt.Sprintf("viiwork-test/node:%d", os.Getpid())
	dockerSays(t, "build", "--quiet", "--target", "prebuilt", "-t", name, folder)
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "-f", name).Run() })
	return name, filepath.Join(folder, "bin", "viiwork")
}

// programs are those that were linked here, by the linker's flags: each takes a while.
var programs sync.Map

func linked(flags string) ([]byte, error) {
	once, _ := programs.LoadOrStore(flags, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "vwl")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "viiwork")
		build := exec.Command("go", "build", "-trimpath", "-tags", "ts_omit_peerapiserver", "-ldflags", "-s -w "+flags, "-o", path, "./viiwork")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the program: %w: %s", err, out)
		}
		return os.ReadFile(path)
	}))
	return once.(func() ([]byte, error))()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// boxed is a node in a container, by the rules of compose.yaml.
type boxed struct {
	t       *testing.T
	image   string
	program string // that the image holds
	dir     string // with the configuration, the model, the state
	url     string
	user    string
}

// box furnishes a folder for a node of another user than root, as far as we may make one.
func box(t *testing.T) boxed { return stampedBox(t, "") }

// stampedBox is box with a program that was linked with more flags.
func stampedBox(t *testing.T, flags string) boxed {
	t.Helper()
	needEngineImage(t)
	if _, err := os.Stat(dockerSocket); err != nil || os.Getenv("DOCKER_HOST") != "" {
		t.Skip("needs Docker at " + dockerSocket)
	}
	dir := furnish(t, "  - {name: tiny, path: tiny.gguf, context: 2048, parallel: 1, llamacpp: {runner: docker, image: cpu, prompt_cache: 64MiB}}\n")
	t.Cleanup(func() { // what a test that failed has left behind
		for _, id := range strings.Fields(dockerSays(t, "ps", "-aq", "--filter", "name=viiwork-real-tiny-")) {
			_ = exec.Command("docker", "rm", "-f", "-v", id).Run()
		}
	})
	b := boxed{t: t, dir: dir, user: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())}
	b.image, b.program = nodeImage(t, flags)
	config := filepath.Join(dir, "viiwork.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(string(text), "port: ")
	port, _, _ = strings.Cut(port, ",")
	b.url = "http://127.0.0.1:" + port
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		b.user = "65534:65534"
		for _, path := range []string{dir, config, filepath.Join(dir, "state"), filepath.Join(dir, "tiny.gguf")} {
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

// argsAt are args for a Docker with another socket.
func (b boxed) argsAt(socket string) []string {
	args := b.args("host", filepath.Join(b.dir, "state"))
	for i, word := range args {
		if word == dockerSocket+":"+dockerSocket {
			args[i] = socket + ":" + dockerSocket
		}
	}
	return args
}

// args are those of `docker run` up to the image's name.
func (b boxed) args(network, state string) []string {
	group := groupOf(b.t, dockerSocket)
	at := filepath.Join(b.dir, "state")
	return []string{"run", "--network", network, "--user", b.user, "--group-add", group, "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--tmpfs", "/tmp", "-e", "VIIWORK_CONFIG=" + filepath.Join(b.dir, "viiwork.yaml"),
		"-v", dockerSocket + ":" + dockerSocket,
		"-v", filepath.Join(b.dir, "viiwork.yaml") + ":" + filepath.Join(b.dir, "viiwork.yaml") + ":ro",
		"-v", filepath.Join(b.dir, "tiny.gguf") + ":" + filepath.Join(b.dir, "tiny.gguf") + ":ro",
		"-v", state + ":" + at}
}

// groupOf is the number of a file's group.
func groupOf(t *testing.T, path string) string {
	t.Helper()
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(stat.Sys().(*syscall.Stat_t).Gid)
}

// serve starts the node; the returned function stops it and returns its exit code and what it logged.
func (b boxed) serve(more ...string) (m machine, stop func() (string, string)) {
	b.t.Helper()
	run := append(b.args("host", filepath.Join(b.dir, "state")), "--detach", b.image, "serve")
	id := dockerSays(b.t, append(run, more...)...)
	stop = sync.OnceValues(func() (string, string) {
		_ = exec.Command("docker", "stop", "--time", "30", id).Run()
		code, _ := exec.Command("docker", "inspect", "--format", "{{.State.ExitCode}}", id).Output()
		log, _ := exec.Command("docker", "logs", id).CombinedOutput()
		_ = exec.Command("docker", "rm", "-f", "-v", id).Run()
		return strings.TrimSpace(string(code)), string(log)
	})
	b.t.Cleanup(func() { stop() })
	m = machine{child{url: b.url}, b.dir}
	return m, stop
}

// TestNodeInAContainerRunsEnginesBesideIt: it answers, ends clean, and the next one finds the engine that it left.
func TestNodeInAContainerRunsEnginesBesideIt(t *testing.T) {
	b := box(t)
	m, stop := b.serve()
	waitReady(t, m.url)
	code, text := m.chat(t, "tiny", false, 8)
	if code != 200 || !strings.Contains(text, `"object":"chat.completion"`) {
		t.Errorf("%d %s", code, text)
	}
	engine := m.model(t, "tiny").Backends[0].Process
	if user := dockerSays(t, "inspect", "--format", "{{.Config.User}}", strings.TrimPrefix(engine, "container ")); user != b.user {
		t.Errorf("the engine runs as %s, the node as %s", user, b.user)
	}
	if code, log := stop(); code != "0" || !strings.Contains(log, "engines run on") {
		t.Errorf("it ended with %s:\n%s", code, log)
	}
	m, stop = b.serve("--stop-engines")
	waitReady(t, m.url)
	if now := m.model(t, "tiny").Backends[0].Process; now != engine {
		t.Errorf("the engine was %s, the next node's is %s", engine, now)
	}
	if code, log := stop(); code != "0" {
		t.Errorf("it ended with %s:\n%s", code, log)
	}
	if left := enginesOf(b.dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestNodeInAContainerRefusesOtherPaths: its engines would be given folders that are not there.
func TestNodeInAContainerRefusesOtherPaths(t *testing.T) {
	b := box(t)
	state, other := filepath.Join(b.dir, "state"), filepath.Join(b.dir, "other")
	if err := os.Mkdir(other, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(other, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ network, mounted, want string }{
		{"host", other, "is " + other + " on this machine"},
		{"none", state, "--network host"},
	} {
		cmd := exec.Command("docker", append(b.args(c.network, c.mounted), "--rm", b.image)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = io.Discard, &said
		if err := cmd.Run(); err == nil || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s, %s: %v; want %q in:\n%s", c.network, c.mounted, err, c.want, said.String())
		}
	}
}
