package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
	"viiwork/tsnode/localcontrol"
)

// withModels gives the node a folder of models.
func (f *fellow) withModels(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	f.more = fmt.Sprintf("models_dir: %q\n", dir)
	return dir
}

// onDisk is the line of a model whose engine never comes up: its file is there all the same.
func onDisk(name, path, args string) string {
	return fmt.Sprintf("  - {name: %s, path: %q, context: 4096, args: [%s], llamacpp: {runner: native, binary: /bin/false}}\n", name, path, args)
}

// pull has the node copy a model, and returns the lines that it said.
func (f *fellow) pull(t testing.TB, want status.PullRequest) (said, []status.Pull) {
	t.Helper()
	body, _ := json.Marshal(want)
	got := f.owner(t, http.MethodPost, "/api/models/pull", string(body))
	var lines []status.Pull
	for line := range strings.Lines(got.body) {
		var p status.Pull
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, p)
	}
	return got, lines
}

// TestAModelIsCopiedFromAnotherNode of a secured mesh, with its projector, and what lies outside of the other's models_dir is not.
func TestAModelIsCopiedFromAnotherNode(t *testing.T) {
	t.Parallel()
	has, asks := lanFellow(t, 7), lanFellow(t, 8)
	asks.seeds = []string{has.seed()}
	there, here, outside := has.withModels(t), asks.withModels(t), filepath.Join(t.TempDir(), "outside.gguf")
	mmproj := filepath.Join(there, "mmproj-m.gguf")
	for i, path := range []string{filepath.Join(there, "m.gguf"), filepath.Join(there, "spare.gguf"), mmproj, outside} {
		if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{Seed: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(there, "link.gguf")); err != nil {
		t.Fatal(err)
	}
	has.models = []string{onDisk("org/m", "m.gguf", "--mmproj, "+mmproj), onDisk("out", outside, ""), onDisk("linked", "link.gguf", "")}
	for _, f := range []*fellow{has, asks} {
		f.secret = rightSecret
		f.here(t)
	}
	holds(t, "they know each other", func() bool { return asks.member(has.name) == "alive" && has.member(asks.name) == "alive" })

	got, lines := asks.pull(t, status.PullRequest{Node: has.name, Model: "org/m"})
	if len(lines) < 2 || lines[len(lines)-1].Done == nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	done := lines[len(lines)-1].Done
	if done.Digest != digestOf(t, filepath.Join(there, "m.gguf")) || len(done.Files) != 2 || !done.Files[1].MMProj {
		t.Errorf("%+v", done)
	}
	for _, name := range []string{"m.gguf", "mmproj-m.gguf"} {
		same(t, filepath.Join(there, name), filepath.Join(here, name))
	}
	if _, lines = asks.pull(t, status.PullRequest{Node: has.name, Model: "spare.gguf", As: "new.gguf"}); lines[len(lines)-1].Done == nil {
		t.Errorf("a file that no model is of: %+v", lines)
	}
	same(t, filepath.Join(there, "spare.gguf"), filepath.Join(here, "new.gguf"))

	for _, c := range []struct {
		want status.PullRequest
		code int
		says string
	}{
		{status.PullRequest{Node: has.name, Model: "out"}, 502, "outside of models_dir"},
		{status.PullRequest{Node: has.name, Model: "linked"}, 502, "no model and no file"},
		{status.PullRequest{Node: has.name, Model: "link.gguf"}, 502, "no model and no file"},
		{status.PullRequest{Node: has.name, Model: "../../outside.gguf"}, 502, "no model and no file"},
		{status.PullRequest{Node: has.name, Model: outside}, 502, "no model and no file"},
		{status.PullRequest{Node: has.name, Model: "org/m", As: "new.gguf"}, 409, "is another file, and stays as it is"},
		{status.PullRequest{Node: has.name, Model: "org/m", As: "../x.gguf"}, 409, "no name for a model's file"},
		{status.PullRequest{Node: has.name, Model: "org/m", Dir: "/nonexistent"}, 409, "no folder"},
		{status.PullRequest{Node: has.name, Model: "org/m", Dir: "here"}, 400, "whole path"},
		{status.PullRequest{Node: "nobody", Model: "org/m"}, 404, "there are " + has.name},
		{status.PullRequest{Node: asks.name, Model: "org/m"}, 404, "no other living node"},
		{status.PullRequest{Node: has.name}, 400, "the body must be"},
	} {
		body, _ := json.Marshal(c.want)
		if got := asks.owner(t, http.MethodPost, "/api/models/pull", string(body)); got.status != c.code || !strings.Contains(got.body, c.says) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if left, _ := os.ReadDir(here); len(left) != 3 {
		t.Errorf("here are %v", left)
	}
}

// TestACopyOutlivesARestartOfTheOtherNode: the machine it comes from loses its power half-way and is there again.
func TestACopyOutlivesARestartOfTheOtherNode(t *testing.T) {
	t.Parallel()
	has, asks := lanFellow(t, 10), lanFellow(t, 11)
	has.seeds, asks.seeds = []string{asks.seed()}, []string{has.seed()}
	there, here := has.withModels(t), asks.withModels(t)
	if err := enginetest.WriteGGUF(filepath.Join(there, "m.gguf"), enginetest.GGUFOptions{Layers: 16}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*fellow{has, asks} {
		f.secret = rightSecret
		f.spawn(t)
	}
	holds(t, "they know each other", func() bool { return asks.member(has.name) == "alive" && has.member(asks.name) == "alive" })
	ended := make(chan []status.Pull, 1)
	go func() {
		_, lines := asks.pull(t, status.PullRequest{Node: has.name, Model: "m.gguf", Rate: 2 << 20})
		ended <- lines
	}()
	part := filepath.Join(here, "m.gguf.part")
	holds(t, "a part has come", func() bool { info, err := os.Stat(part); return err == nil && info.Size() > 0 })
	has.kill()
	has.spawn(t)
	if lines := <-ended; len(lines) == 0 || lines[len(lines)-1].Done == nil {
		t.Fatalf("%+v", lines)
	}
	same(t, filepath.Join(there, "m.gguf"), filepath.Join(here, "m.gguf"))
}

// TestAModelIsCopiedOverATailnet, through the userspace network stacks of both nodes.
func TestAModelIsCopiedOverATailnet(t *testing.T) {
	t.Parallel()
	control := localTailnet(t, localcontrol.Config{})
	has, asks := tailnetFellow(t, control, "gives", rightSecret), tailnetFellow(t, control, "takes", rightSecret)
	there, here := has.withModels(t), asks.withModels(t)
	if err := enginetest.WriteGGUF(filepath.Join(there, "m.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*fellow{has, asks} {
		f.here(t)
	}
	holds(t, "they know each other", func() bool { return asks.member(has.name) == "alive" && has.member(asks.name) == "alive" })
	if got, lines := asks.pull(t, status.PullRequest{Node: has.name, Model: "m.gguf"}); len(lines) == 0 || lines[len(lines)-1].Done == nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	same(t, filepath.Join(there, "m.gguf"), filepath.Join(here, "m.gguf"))
}

// TestModelsAreGivenToMembersAlone, and copied for this machine's owner alone.
func TestModelsAreGivenToMembersAlone(t *testing.T) {
	t.Parallel()
	f := lanFellow(t, 9)
	if err := enginetest.WriteGGUF(filepath.Join(f.withModels(t), "m.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	f.here(t)
	holds(t, "it has its place", func() bool { return f.read("/v1/capacity", new(any)) })
	for _, path := range []string{"/v1/modelfiles?model=m.gguf", "/v1/modelfiles/piece?model=m.gguf&file=0&from=0", "/v1/modelfiles/sum?model=m.gguf&file=0"} {
		answer, err := quick.Get(f.url() + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
	answer, err := quick.Post(f.url()+"/api/models/pull", "application/json", strings.NewReader(`{"node":"x","model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a pull over the network: %d", answer.StatusCode)
	}
}

// same holds two files against each other.
func same(t testing.TB, a, b string) {
	t.Helper()
	left, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	if right, err := os.ReadFile(b); err != nil || !bytes.Equal(left, right) {
		t.Errorf("%s is another than %s: %v", b, a, err)
	}
}
