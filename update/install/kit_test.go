package install_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/build"
	"viiwork/update/install"
	"viiwork/update/updatetest"
)

const (
	repository = "owner/viiwork"
	publisher  = "github.com/owner/viiwork/.github/workflows/release.yml"
	commit     = "0123456789abcdef0123456789abcdef01234567"
	config     = "/etc/viiwork/viiwork.yaml"
	oldVersion = "v1.2.3"
	newVersion = "v1.2.4"
)

var platform = runtime.GOOS + "/" + runtime.GOARCH

// This program is also what the tests run: a node, and an installation that is killed.
func TestMain(m *testing.M) {
	switch os.Getenv("INSTALL_TEST_ROLE") {
	case "node":
		fakeNode()
	case "install":
		installAndDie()
	default:
		os.Exit(m.Run())
	}
}

// world is a publisher, and a machine with one version.
type world struct {
	t        *testing.T
	sig      *updatetest.Sigstore
	source   string // directory that holds releases
	versions string
	state    string // of the node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, sig: updatetest.New(t), source: t.TempDir(), state: filepath.Join(t.TempDir(), "state")}
	w.versions = filepath.Join(t.TempDir(), "versions")
	w.put(oldVersion, script(oldVersion, "good"))
	w.link("current", oldVersion)
	w.link("previous", oldVersion)
	if err := os.Mkdir(w.state, 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// put lays a version down as a setup does. Meanwhile no other test may start a program: a process that is about to become one
// would hold the file open for writing, and until it is one nobody could run the file.
func (w *world) put(version, program string) {
	w.t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	dir := filepath.Join(w.versions, version)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "viiwork"), []byte(program), 0o755)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(name, to string) {
	w.t.Helper()
	path := filepath.Join(w.versions, name)
	_ = os.Remove(path)
	if err := os.Symlink(to, path); err != nil {
		w.t.Fatal(err)
	}
}

// script is a program: it says what it is, takes configurations or not, and serves as fakeNode does.
func script(version, behaviour string) string {
	verdict := "exit 0"
	if behaviour == "choosy" {
		verdict = "echo 'viiwork.yaml:3:1: no such key' >&2; exit 1"
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`#!/bin/sh
case "$1" in
version) echo '{"version":"%s","os":"%s","arch":"%s"}' ;;
config) %s ;;
serve) INSTALL_TEST_ROLE=node exec '%s' '%s' '%s' ;;
esac
`, version, runtime.GOOS, runtime.GOARCH, verdict, self, version, behaviour)
}

// release publishes a program for this machine and verifies it.
func (w *world) release(version, program string) *update.Verified {
	w.t.Helper()
	return w.releaseFor(version, map[string][]byte{platform: []byte(program)})
}

func (w *world) releaseFor(version string, programs map[string][]byte) *update.Verified {
	w.t.Helper()
	w.publish(version, programs)
	found, err := verified(w.source, w.sig.Root(), version)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// publish leaves a release and its proof in the directory of releases, in place of the one that was there.
func (w *world) publish(version string, programs map[string][]byte) {
	w.t.Helper()
	w.source = w.t.TempDir()
	index, _, err := build.Layout(w.source, build.Release{Version: version, Commit: commit, Built: time.Unix(1e9, 0), Publisher: publisher}, programs)
	if err != nil {
		w.t.Fatal(err)
	}
	by := updatetest.Run(repository, version, commit)
	proof := w.sig.Sign(updatetest.Signing{Identity: by, Statement: updatetest.Provenance(by, map[string]string{"index": strings.TrimPrefix(index, "sha256:")}).JSON(w.t)})
	if err := os.WriteFile(filepath.Join(w.source, version+".sigstore.json"), proof, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func verified(source string, root []byte, version string) (*update.Verified, error) {
	p, err := update.ParsePublisher(publisher)
	if err != nil {
		return nil, err
	}
	trust, err := update.LoadTrust(update.TrustConfig{Root: root})
	if err != nil {
		return nil, err
	}
	from, err := update.OpenSource(source, nil)
	if err != nil {
		return nil, err
	}
	found, _, err := update.NewVerifier(p, trust).Release(context.Background(), from, version)
	return found, err
}

func (w *world) open() *install.Versions { return install.Open(w.versions) }

// install installs a version that behaves so, and wants it done.
func (w *world) install(version, behaviour string) {
	w.t.Helper()
	if err := w.open().Install(w.t.Context(), w.release(version, script(version, behaviour)), w.order()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) order() install.Order {
	return install.Order{Config: config, StateDir: w.state, Patience: time.Minute}
}

// wantLinks holds the links against what is expected.
func (w *world) wantLinks(current, previous string) {
	w.t.Helper()
	is, err := w.open().Current()
	was, err2 := w.open().Previous()
	if err != nil || err2 != nil || is != current || was != previous {
		w.t.Fatalf("current is %q, previous %q: want %s, %s: %v, %v", is, was, current, previous, err, err2)
	}
}

func (w *world) read() install.State {
	w.t.Helper()
	s, err := w.open().State()
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// wantNothingLeft wants no trace of what did not become a version.
func (w *world) wantNothingLeft(also ...string) {
	w.t.Helper()
	known := append([]string{oldVersion, "current", "previous", "lock", "state.json", "state.lock", "judge"}, also...)
	entries, err := os.ReadDir(w.versions)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			w.t.Errorf("%s was left", e.Name())
		}
	}
}
