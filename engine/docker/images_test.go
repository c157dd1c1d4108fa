package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/docker"
)

// teller is a Docker that tells these lines of every pull and build.
func teller(t *testing.T, lines ...string) *docker.Runner {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.41")
		case strings.HasSuffix(r.URL.Path, "/images/create"), strings.HasSuffix(r.URL.Path, "/build"):
			for _, line := range lines {
				_, _ = w.Write([]byte(line + "\n"))
			}
		case strings.HasSuffix(r.URL.Path, "/info"):
			_, _ = w.Write([]byte(`{"SecurityOptions":["name=seccomp,profile=default","name=rootless"]}`))
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			var asked struct{ User string }
			_ = json.NewDecoder(r.Body).Decode(&asked)
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"message": "user is " + asked.User})
		case strings.Contains(r.URL.Path, "/images/present/json"):
			_, _ = w.Write([]byte(`{"Id":"sha256:aa","Size":7,"Config":{"User":"5"}}`))
		case strings.HasSuffix(r.URL.Path, "/images/get"):
			_, _ = w.Write([]byte("archive of " + r.URL.Query().Get("names")))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"No such image"}`))
		}
	}))
	t.Cleanup(server.Close)
	r := docker.New(docker.Config{Host: "tcp://" + server.Listener.Addr().String(), Node: "attic", StateDir: "/state", UID: 1000, GID: 1000})
	t.Cleanup(func() { r.Close() })
	return r
}

func TestPullTellsLayersAsTheyCome(t *testing.T) {
	r := teller(t,
		`{"status":"Pulling from engine","id":"v1"}`,
		`{"status":"Downloading","progressDetail":{"current":10,"total":40},"id":"aaaaaaaaaaaa"}`,
		`{"status":"Already exists","id":"bbbbbbbbbbbb"}`,
		`{"status":"Extracting","progressDetail":{"current":1,"total":40},"id":"aaaaaaaaaaaa"}`)
	got := map[string][]int64{}
	if err := r.Pull(t.Context(), "example/x:1", func(layer string, bytes int64) { got[layer] = append(got[layer], bytes) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got["aaaaaaaaaaaa"]) != 2 || got["aaaaaaaaaaaa"][0] != 10 || got["aaaaaaaaaaaa"][1] != -1 || got["bbbbbbbbbbbb"][0] != -1 {
		t.Errorf("told %v", got)
	}
}

func TestFailedPullIsToldWithTheWayOut(t *testing.T) {
	for text, want := range map[string]string{
		"write /var/lib/docker/tmp/GetImageBlob1: no space left on device": "docker's disk is full",
		"filesystem layer verification failed for digest sha256:aa":        "gave other bytes",
		"manifest unknown: manifest unknown":                               "check the image's name",
		"unexpected EOF":                                                   "run the same command again",
	} {
		line, _ := json.Marshal(map[string]string{"error": text})
		r := teller(t, `{"status":"Waiting","id":"aaaaaaaaaaaa"}`, string(line))
		err := r.Pull(t.Context(), "example/x:1", nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want %q", err, want)
		}
		err = r.Build(t.Context(), strings.NewReader(""), "x:1", nil, func(string) {})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("building: %v; want %q", err, want)
		}
	}
	if err := teller(t, `{"status":`).Pull(t.Context(), "example/x:1", nil); err == nil {
		t.Error("an answer that breaks off passed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := teller(t).Pull(ctx, "example/x:1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

func TestBuildTellsLinesWithoutColour(t *testing.T) {
	r := teller(t, `{"stream":"Step 1/2 : FROM scratch\n"}`, `{"stream":"\n"}`, `{"stream":"\u001b[91munpack: unpacking\n\u001b[0m"}`)
	var told []string
	if err := r.Build(t.Context(), strings.NewReader(""), "x:1", map[string]string{"BASE": "b"}, func(line string) { told = append(told, line) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Step 1/2 : FROM scratch", "unpack: unpacking"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestMissingImageIsNotThere(t *testing.T) {
	if _, err := teller(t).ImageID(t.Context(), "absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if id, err := teller(t).ImageID(t.Context(), "present"); err != nil || id != "sha256:aa" {
		t.Errorf("id %s, %v", id, err)
	}
	_, err := teller(t).Probe(t.Context(), engine.Model{Image: "sha256:" + strings.Repeat("a", 64)}, "--help")
	if err == nil || !strings.Contains(err.Error(), "viiwork images ls") {
		t.Errorf("a pinned image that is gone: %v", err)
	}
}

func TestImageIsSavedAsItIs(t *testing.T) {
	r := teller(t)
	if _, _, err := r.SaveImage(t.Context(), "absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	archive, size, err := r.SaveImage(t.Context(), "present")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if text, err := io.ReadAll(archive); err != nil || string(text) != "archive of present" || size != 7 {
		t.Errorf("%s, %d bytes, %v", text, size, err)
	}
	if config, err := r.ImageConfig(t.Context(), "present"); err != nil || !strings.Contains(string(config), `"User":"5"`) {
		t.Errorf("%s, %v", config, err)
	}
}

// TestDiskOfAnotherMachineIsNotJudged: a folder of that name here would be another one.
func TestDiskOfAnotherMachineIsNotJudged(t *testing.T) {
	if free, err := teller(t).Free(t.Context()); err == nil {
		t.Errorf("%d bytes", free)
	}
}

// TestRootlessDockersEnginesAreItsUsers: there the node's own user is 0 inside.
func TestRootlessDockersEnginesAreItsUsers(t *testing.T) {
	_, err := teller(t).Probe(t.Context(), engine.Model{Image: "present"}, "--help")
	if err == nil || !strings.Contains(err.Error(), "user is 0:0") {
		t.Errorf("error %v", err)
	}
}

func TestRootlessDockerIsPointedTo(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"XDG_RUNTIME_DIR": dir}
	getenv := func(name string) string { return env[name] }
	if got := docker.RootlessSocket(getenv); got != "" {
		t.Errorf("found %s where there is none", got)
	}
	path := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := docker.RootlessSocket(getenv); got != path {
		t.Errorf("found %q, want %s", got, path)
	}
	env["DOCKER_HOST"] = "tcp://127.0.0.1:2375"
	if got := docker.RootlessSocket(getenv); got != "" {
		t.Errorf("%s is named though the owner has set an address", got)
	}
}
