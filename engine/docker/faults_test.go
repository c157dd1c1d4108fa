package docker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"viiwork/engine"
	"viiwork/engine/docker"
)

// daemon is as much of Docker as a failing start touches.
type daemon struct {
	image      bool   // the image is there
	createErr  string // refuses to create
	startErr   string // refuses to start
	foreign    bool   // the name is taken by somebody else's container
	mu         sync.Mutex
	removed    []string
	containers int
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fail := func(code int, text string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": text})
	}
	path := r.URL.Path
	if i := strings.Index(path[1:], "/"); strings.HasPrefix(path, "/v1.") {
		path = path[1+i:]
	}
	switch {
	case path == "/_ping":
		w.Header().Set("Api-Version", "1.41")
	case strings.HasPrefix(path, "/images/") && d.image:
		_, _ = w.Write([]byte(`{"Config":{"Env":["LLAMA_ARG_HOST=0.0.0.0"]}}`))
	case strings.HasPrefix(path, "/images/"):
		fail(http.StatusNotFound, "No such image")
	case path == "/containers/create" && d.foreign:
		fail(http.StatusConflict, "Conflict. The container name is already in use")
	case path == "/containers/create" && d.createErr != "":
		fail(http.StatusBadRequest, d.createErr)
	case path == "/containers/create":
		d.containers++
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"Id":"0123456789abcdef0123"}`))
	case strings.HasSuffix(path, "/start"):
		fail(http.StatusInternalServerError, d.startErr)
	case strings.HasSuffix(path, "/json"):
		_, _ = w.Write([]byte(`{"Id":"f0f0f0f0f0f0f0f0","State":{"Running":false},"Config":{"Labels":{"theirs":"1"}}}`))
	case r.Method == http.MethodDelete:
		d.containers--
		d.removed = append(d.removed, path)
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(http.StatusNotFound, "page not found")
	}
}

func TestFailedStartIsExplainedAndLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		daemon *daemon
		want   []string
	}{
		"image missing": {&daemon{}, []string{"image example/x:1 is not on this machine", "viiwork images pull example/x:1"}},
		"toolkit missing": {
			&daemon{image: true, startErr: `could not select device driver "" with capabilities: [[gpu]]`},
			[]string{"nvidia-container-toolkit"},
		},
		"no such card": {
			&daemon{image: true, startErr: "OCI runtime create failed: nvidia-container-cli: device error: 9: unknown device: unknown"},
			[]string{"nvidia-smi -L"},
		},
		"path missing": {
			&daemon{image: true, createErr: `invalid mount config for type "bind": bind source path does not exist: /models`},
			[]string{"/models", "check the model's path"},
		},
		"name taken by a stranger": {
			&daemon{image: true, foreign: true},
			[]string{"viiwork-attic-org-m-0-", "f0f0f0f0f0f0", "not this node's"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.daemon
			server := httptest.NewServer(d)
			defer server.Close()
			r := docker.New(docker.Config{Host: "tcp://" + server.Listener.Addr().String(), Node: "attic", StateDir: "/state"})
			defer r.Close()
			spec := exampleSpec()
			spec.Model.Image, spec.Model.Accel, spec.GPUs = "example/x:1", engine.AccelCUDA, []int{0}
			_, err := r.Start(t.Context(), spec)
			if err == nil {
				t.Fatal("started")
			}
			for _, part := range append(c.want, "starting backend org/m#0") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
			if d.containers != 0 {
				t.Errorf("%d containers left, removed %v", d.containers, d.removed)
			}
			if d.foreign && len(d.removed) > 0 {
				t.Errorf("a stranger's container was removed: %v", d.removed)
			}
		})
	}
}

func TestNoDockerIsToldWithTheWayOut(t *testing.T) {
	for _, host := range []string{"unix://" + filepath.Join(t.TempDir(), "none.sock"), "tcp://127.0.0.1:1", "gopher"} {
		r := docker.New(docker.Config{Host: host, Node: "attic", StateDir: "/state"})
		defer r.Close()
		_, findErr := r.Find(t.Context())
		_, probeErr := r.Probe(t.Context(), engine.Model{Image: "x"}, "--help")
		_, startErr := r.Start(t.Context(), exampleSpec())
		for _, err := range []error{findErr, probeErr, startErr} {
			if err == nil || !strings.Contains(err.Error(), "runner: native") {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
}

func TestOwnImageIsNotToBePulled(t *testing.T) {
	server := httptest.NewServer(&daemon{})
	defer server.Close()
	r := docker.New(docker.Config{Host: "tcp://" + server.Listener.Addr().String(), Node: "attic", StateDir: "/state"})
	defer r.Close()
	_, err := r.Probe(t.Context(), engine.Model{Image: "viiwork-engine:cpu"}, "--help")
	if err == nil || strings.Contains(err.Error(), "pull") || !strings.Contains(err.Error(), "viiwork images build cpu") {
		t.Fatalf("error %v", err)
	}
}
