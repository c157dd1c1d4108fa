package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// engineImage is the CPU engine that the set-up makes from Debian's packages.
const engineImage = "viiwork-engine:cpu"

// runners are the ways to run a real engine here; each gives the model's llamacpp block or skips.
var runners = map[string]func(t *testing.T) string{
	"docker": func(t *testing.T) string {
		if out, err := exec.Command("docker", "image", "inspect", engineImage).CombinedOutput(); err != nil {
			t.Skipf("needs Docker with the image %s (make images): %s", engineImage, bytes.TrimSpace(out))
		}
		return "{runner: docker, image: cpu, prompt_cache: 64MiB}"
	},
	"native": func(t *testing.T) string {
		return fmt.Sprintf("{runner: native, binary: %q, prompt_cache: 64MiB}", enginetest.Real(t))
	},
}

// machine is a node in a process of its own, with its own state and one or more models.
type machine struct {
	child
	dir string
}

// boot starts a node on the configuration file in dir.
func boot(t *testing.T, dir string) machine {
	t.Helper()
	return machine{start(t, "serve", filepath.Join(dir, "viiwork.yaml")), dir}
}

// furnish writes a configuration with these models, a tiny model file beside it, and returns the folder.
func furnish(t *testing.T, models string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := enginetest.WriteGGUF(filepath.Join(dir, "tiny.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
node: {name: real, state_dir: %q, drain: 2s}
api: {host: 127.0.0.1, port: %d, local: ""}
mesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}
models_dir: %q
models:
%s`, filepath.Join(dir, "state"), freePort(), freePort(), dir, models)
	if err := os.WriteFile(filepath.Join(dir, "viiwork.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endEngines(t, dir) })
	return dir
}

// endEngines runs the node once more with the order to take its engines along, and checks that none is left.
func endEngines(t *testing.T, dir string) {
	cmd := exec.Command(os.Args[0], filepath.Join(dir, "viiwork.yaml"), "stop-engines")
	cmd.Env = append(os.Environ(), roleEnv+"=serve") // its standard input is empty: it ends as soon as it is up
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("ending the engines: %v: %s", err, out)
	}
	if left := enginesOf(dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// enginesOf lists processes that name the folder on their command line: engines in containers and outside.
func enginesOf(dir string) string {
	out, _ := exec.Command("pgrep", "-af", "--", "-m "+dir).Output()
	return strings.TrimSpace(string(out))
}

func (m machine) status(t *testing.T) (s status.Node) {
	t.Helper()
	answer, err := http.Get(m.url + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// model is one model of the node's status.
func (m machine) model(t *testing.T, name string) status.Model {
	t.Helper()
	models := m.status(t).Models
	i := slices.IndexFunc(models, func(s status.Model) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no model %s in %+v", name, models)
	}
	return models[i]
}

// chat asks model and returns the answer's status and body.
func (m machine) chat(t *testing.T, model string, stream bool, tokens int) (int, string) {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":%d,"ignore_eos":true,"temperature":0,"messages":[{"role":"user","content":"hello"}]}`, model, stream, tokens)
	answer, err := http.Post(m.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v after %.200q", err, text)
	}
	return answer.StatusCode, string(text)
}

// TestRealEngineAnswers asks a real llama-server, in a container and as a process, streaming and not.
func TestRealEngineAnswers(t *testing.T) {
	for name, block := range runners {
		t.Run(name, func(t *testing.T) {
			dir := furnish(t, "  - {name: org/tiny, path: tiny.gguf, context: 4096, parallel: 2, llamacpp: "+block(t)+"}\n")
			m := boot(t, dir)
			waitReady(t, m.url)
			code, text := m.chat(t, "org/tiny", false, 8)
			if code != 200 || !strings.Contains(text, `"object":"chat.completion"`) || !strings.Contains(text, `"model":"org/tiny"`) {
				t.Errorf("not streamed: %d %s", code, text)
			}
			code, text = m.chat(t, "org/tiny", true, 8)
			if code != 200 || !strings.HasSuffix(strings.TrimSpace(text), "data: [DONE]") || strings.Contains(text, "prompt_progress") {
				t.Errorf("streamed: %d %s", code, text)
			}
			if name == "native" {
				checkUmask(t, m.model(t, "org/tiny").Backends[0].Process)
			}
		})
	}
}

// checkUmask wants files that the engine writes, saved slots above all, to be readable to nobody else.
func checkUmask(t *testing.T, process string) {
	t.Helper()
	var pid int
	if _, err := fmt.Sscanf(process, "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nUmask:\t0077\n") {
		t.Errorf("the engine's umask is not 0077:\n%s", text)
	}
}

// TestKilledNodeAdoptsItsEngine kills the node with -9 and starts it again: it must find the same engine process,
// which has loaded its model once in its life.
func TestKilledNodeAdoptsItsEngine(t *testing.T) {
	for name, block := range runners {
		t.Run(name, func(t *testing.T) {
			dir := furnish(t, "  - {name: tiny, path: tiny.gguf, context: 4096, parallel: 2, llamacpp: "+block(t)+"}\n")
			first := start(t, "serve-killed", filepath.Join(dir, "viiwork.yaml"))
			waitReady(t, first.url)
			before := machine{first, dir}.status(t).Models[0].Backends[0]
			if before.Process == "" {
				t.Fatalf("no process in %+v", before)
			}
			if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = first.cmd.Wait()

			second := boot(t, dir)
			waitReady(t, second.url)
			after := second.status(t).Models[0].Backends[0]
			if after.Process != before.Process || after.Restarts != 0 {
				t.Fatalf("process was %s, is %s after %d restarts", before.Process, after.Process, after.Restarts)
			}
			if code, text := second.chat(t, "tiny", false, 4); code != 200 {
				t.Errorf("the adopted engine answers %d %s", code, text)
			}
			logs := second.logs(t, "tiny")
			if n := strings.Count(logs, "model loaded"); n != 1 {
				t.Errorf("the model was loaded %d times:\n%s", n, logs)
			}
		})
	}
}

// logs reads the engine's output over the node's socket.
func (m machine) logs(t *testing.T, model string) string {
	t.Helper()
	answer, err := socketClient(m.dir).Get("http://viiwork/api/logs?model=" + model)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDeadEngineIsAnErrorEvent kills the engine under an open stream: the client is told, the engine comes back, and
// the other model serves on meanwhile.
func TestDeadEngineIsAnErrorEvent(t *testing.T) {
	block := runners["native"](t)
	dir := furnish(t, "  - {name: dies, path: tiny.gguf, context: 16384, parallel: 1, llamacpp: "+block+"}\n"+
		"  - {name: lives, path: tiny.gguf, context: 4096, parallel: 1, llamacpp: "+block+"}\n")
	m := boot(t, dir)
	waitReady(t, m.url)
	body := `{"model":"dies","stream":true,"max_tokens":15000,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`
	answer, err := http.Post(m.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 2000)); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(m.model(t, "dies").Backends[0].Process, "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(answer.Body)
	events := strings.Split(strings.TrimSpace(string(rest)), "\n\n")
	if last := events[len(events)-1]; !strings.Contains(last, `"error"`) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream ends with %q (%v)", last, err)
	}
	if code, text := m.chat(t, "lives", false, 4); code != 200 {
		t.Errorf("the other model answers %d %s", code, text)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		b := m.model(t, "dies").Backends[0]
		if b.State == "ready" && b.Restarts == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not come back: %+v", b)
		}
	}
	if code, text := m.chat(t, "dies", false, 4); code != 200 {
		t.Errorf("after its restart it answers %d %s", code, text)
	}
}

// TestBrokenModelLeavesTheOthers starts a node with every broken model file we can think of beside a good one.
func TestBrokenModelLeavesTheOthers(t *testing.T) {
	block := runners["native"](t)
	entry := func(name, path string) string {
		return fmt.Sprintf("  - {name: %s, path: %q, context: 1024, parallel: 1, llamacpp: %s}\n", name, path, block)
	}
	dir := furnish(t, entry("missing", "nowhere.gguf")+entry("cut", "cut.gguf")+entry("garbage", "garbage.gguf")+entry("folder", "folder.gguf")+
		fmt.Sprintf("  - {name: flag, path: tiny.gguf, context: 1024, parallel: 1, args: [--no-such-flag], llamacpp: %s}\n", block)+
		fmt.Sprintf("  - {name: embeds, path: tiny.gguf, context: 1024, parallel: 1, args: [--embeddings], llamacpp: %s}\n", block)+
		"  - {name: image, path: tiny.gguf, context: 1024, parallel: 1, llamacpp: {runner: docker, image: \"viiwork-test/none:1\"}}\n"+
		entry("good", "tiny.gguf"))
	whole, err := os.ReadFile(filepath.Join(dir, "tiny.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"cut.gguf": whole[:len(whole)/2], "garbage.gguf": []byte(strings.Repeat("no model ", 500))} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.gguf"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := boot(t, dir)
	want := map[string]string{"missing": "nowhere.gguf", "cut": "truncated", "garbage": "GGUF", "folder": "not a file", "flag": "--no-such-flag", "embeds": "--pooling", "image": "viiwork-test/none:1"}
	deadline := time.Now().Add(time.Minute)
	for {
		missing := []string{}
		for _, model := range m.status(t).Models {
			b := model.Backends[0]
			if why, broken := want[model.Name]; broken && (b.State != "failed" || !strings.Contains(b.Error, why)) || !broken && b.State != "ready" {
				missing = append(missing, fmt.Sprintf("%s is %s: %s", model.Name, b.State, b.Error))
			}
		}
		if len(missing) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not as it should be: %s", strings.Join(missing, "\n"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if code, text := m.chat(t, "good", false, 4); code != 200 {
		t.Errorf("the good model answers %d %s", code, text)
	}
	for name := range want {
		code, text := m.chat(t, name, false, 4)
		if code != http.StatusServiceUnavailable || !strings.Contains(text, `"error"`) {
			t.Errorf("%s answers %d %s", name, code, text)
		}
	}
}
