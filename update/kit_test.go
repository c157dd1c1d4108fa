package update_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/build"
	"viiwork/update/updatetest"
)

const (
	repository = "owner/viiwork"
	publisher  = "github.com/owner/viiwork/.github/workflows/release.yml"
	version    = "v1.2.3"
	commit     = "0123456789abcdef0123456789abcdef01234567"
	content    = "a program"
)

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// world is a Sigstore, a registry and a state directory.
type world struct {
	t     *testing.T
	sig   *updatetest.Sigstore
	reg   *updatetest.Registry
	state string
	gone  bool // the registry does not answer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, sig: updatetest.New(t), reg: updatetest.NewRegistry(t), state: t.TempDir()}
}

// signing is an honest run's proof of one download, for tests to make worse.
func signing(of string) updatetest.Signing {
	by := updatetest.Run(repository, version, commit)
	return updatetest.Signing{Identity: by, Statement: statement(by, map[string]string{"viiwork-linux-amd64": of})}
}

func statement(by updatetest.Identity, subjects map[string]string) []byte {
	return updatetest.Provenance(by, subjects).JSON(new(testing.T))
}

// verifier believes the world's Sigstore, or another one's root.
func (w *world) verifier(root []byte) *update.Verifier {
	w.t.Helper()
	p, err := update.ParsePublisher(publisher)
	if err != nil {
		w.t.Fatal(err)
	}
	if root == nil {
		root = w.sig.Root()
	}
	trust, err := update.LoadTrust(update.TrustConfig{Root: root})
	if err != nil {
		w.t.Fatal(err)
	}
	return update.NewVerifier(p, trust)
}

// download verifies a file with this content by this bundle.
func (w *world) download(bundle, root []byte) (update.Report, error) {
	w.t.Helper()
	dir := w.t.TempDir()
	file, proof := filepath.Join(dir, "viiwork"), filepath.Join(dir, "proof.json")
	write(w.t, file, []byte(content))
	write(w.t, proof, bundle)
	return w.verifier(root).File(file, proof, version)
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// programs of a release: small, and other ones for each version.
func programs(version string) map[string][]byte {
	return map[string][]byte{
		"linux/amd64": []byte("amd64 " + version), "linux/arm64": []byte("arm64 " + version), "darwin/arm64": []byte("mac " + version),
	}
}

// layout writes a release and returns its directory and the digest of its index in hex.
func (w *world) layout(version string, programs map[string][]byte) (dir, index string) {
	w.t.Helper()
	dir = w.t.TempDir()
	rel := build.Release{Version: version, Commit: commit, Built: time.Unix(1e9, 0), Publisher: publisher}
	index, _, err := build.Layout(dir, rel, programs)
	if err != nil {
		w.t.Fatal(err)
	}
	return dir, strings.TrimPrefix(index, "sha256:")
}

// prove signs an index as the workflow does at a version's tag.
func (w *world) prove(version, index string) []byte {
	by := updatetest.Run(repository, version, commit)
	return w.sig.Sign(updatetest.Signing{Identity: by, Statement: statement(by, map[string]string{"index": index})})
}

// publish puts a release into the registry with its proof, and returns its index in hex.
func (w *world) publish(version string) string {
	w.t.Helper()
	dir, index := w.layout(version, programs(version))
	w.push(dir, version, w.prove(version, index))
	return index
}

func (w *world) push(dir, version string, bundles ...[]byte) {
	w.t.Helper()
	_, err := update.Publish(context.Background(), update.Publication{Dir: dir, Version: version, Repository: w.reg.Name, Bundles: bundles, Transport: w.reg})
	if err != nil {
		w.t.Fatal(err)
	}
}

// updater runs a version and looks into the registry, or into what change says.
func (w *world) updater(running string, change func(*update.Config)) *update.Updater {
	w.t.Helper()
	// The mirror is one that nobody answers for: what a test needs is in its root.
	cfg := update.Config{
		Publisher: publisher, Version: running, Source: w.reg.Name, StateDir: w.state, Transport: w.reg,
		Trust: update.TrustConfig{Root: w.sig.Root(), Mirror: "http://tuf.example", Transport: nobody{}},
	}
	if change != nil {
		change(&cfg)
	}
	u, err := update.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// wantRefused holds an error and the report's first failed check against what was expected.
func wantRefused(t *testing.T, r update.Report, err error, check, cause string) {
	t.Helper()
	if err == nil || r.OK {
		t.Fatalf("it was accepted: %+v", r)
	}
	for _, c := range r.Checks {
		if c.State != update.Fail {
			continue
		}
		if c.ID != check || !strings.Contains(c.Cause, cause) {
			t.Fatalf("it failed at %q because of %q; want %q because of …%s…", c.ID, c.Cause, check, cause)
		}
		if c.Fix == "" {
			t.Errorf("check %s says nothing of what to do", c.ID)
		}
		return
	}
	t.Fatalf("no check failed: %+v, %v", r, err)
}

func wantAccepted(t *testing.T, r update.Report, err error) {
	t.Helper()
	if err != nil || !r.OK || r.Commit != commit || r.Signed == "" {
		t.Fatalf("it was refused: %v: %+v", err, r)
	}
	for _, c := range r.Checks {
		if c.State != update.Pass {
			t.Errorf("check %s is %s", c.ID, c.State)
		}
	}
}

var errNobody = errors.New("nobody answers")

// nobody is a network on which nobody answers.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNobody }
