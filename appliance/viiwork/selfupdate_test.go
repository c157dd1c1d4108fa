package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	viiwork "viiwork/appliance/viiwork"
	"viiwork/engine/enginetest"
	"viiwork/update"
	"viiwork/update/updatetest"
)

// stampMark stands at the end of a copy of this program, before the version that it is to be: so a release of another
// version takes no build.
const stampMark = "\nviiwork release "

// stampByTail makes a copy of this program the version that stands at its end, and a release of owner.
func stampByTail() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	tail := make([]byte, 64)
	if end, err := f.Seek(0, io.SeekEnd); err != nil || end < int64(len(tail)) {
		return
	} else if _, err := f.ReadAt(tail, end-int64(len(tail))); err != nil {
		return
	}
	if _, version, ok := strings.Cut(string(tail), stampMark); ok {
		viiwork.StampVersion(version)
		viiwork.StampPublisher(owner)
	}
}

// release is this program as a version.
func release(t *testing.T, version string) []byte {
	t.Helper()
	program, err := os.ReadFile(itself(t))
	if err != nil {
		t.Fatal(err)
	}
	return append(program, stampMark+version...)
}

// built is the path of a program of testdata.
func built(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "./testdata/"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// badReleases builds a program that is no good and returns it as the version that goes wrong in a certain way.
func badReleases(t *testing.T) func(version, fault string) []byte {
	t.Helper()
	program, err := os.ReadFile(built(t, "badnode"))
	if err != nil {
		t.Fatal(err)
	}
	return func(version, fault string) []byte {
		return fmt.Appendf(bytes.Clone(program), "\n{%q:%q,%q:%q}", "Version", version, "Fault", fault)
	}
}

// shop is a registry in this process with releases that are signed as real ones are.
type shop struct {
	source, trustRoot string
	pack              string // the program that makes releases
	signs             *updatetest.Sigstore
	shut              sync.RWMutex // who has it has the registry's clients wait
}

func openShop(t *testing.T) *shop {
	t.Helper()
	stock, s := updatetest.NewRegistry(t), &shop{pack: built(t, "pack"), trustRoot: filepath.Join(t.TempDir(), "trusted_root.json"), signs: updatetest.New(t)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.shut.RLock()
		defer s.shut.RUnlock()
		answer, err := stock.RoundTrip(r)
		if err != nil {
			return // who asked has left
		}
		defer answer.Body.Close()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	s.source = strings.TrimPrefix(server.URL, "http://") + "/owner/viiwork"
	if err := os.WriteFile(s.trustRoot, s.signs.Root(), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// layOut writes a release into a folder as a source, and returns its proof.
func (s *shop) layOut(t *testing.T, dir, version string, program []byte) (bundle []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, program, 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(s.pack, path, dir, version, ownerCommit, owner).Output()
	if err != nil {
		t.Fatalf("packing %s: %v", version, err)
	}
	index := string(out)
	by := updatetest.Run("owner/viiwork", version, ownerCommit)
	bundle = s.signs.Sign(updatetest.Signing{Identity: by, Statement: updatetest.Provenance(by, map[string]string{
		"index": strings.TrimPrefix(index, "sha256:"), "program": fmt.Sprintf("%x", sha256.Sum256(program)),
	}).JSON(t)})
	if err := os.WriteFile(filepath.Join(dir, "viiwork-"+version+".sigstore.json"), bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	return bundle
}

// publish puts a release into the registry, with its proof.
func (s *shop) publish(t *testing.T, version string, program []byte) {
	t.Helper()
	dir := t.TempDir()
	bundle := s.layOut(t, dir, version, program)
	if _, err := update.Publish(t.Context(), update.Publication{Dir: dir, Version: version, Repository: s.source, Bundles: [][]byte{bundle}}); err != nil {
		t.Fatal(err)
	}
}

// verdict is what 'update --json' says.
type verdict struct {
	State, Version, From, Why, Fault string
	Drain                            float64 `json:"drain_s"`
	Swap                             float64 `json:"swap_s"`
}

// update has the node's own program update it from the shop, as its owner would.
func (s *shop) update(t *testing.T, node *supervisor, args ...string) (v verdict, code int, said string) {
	t.Helper()
	args = append([]string{"update", "--yes", "--json", "--config", node.config, "--source", s.source, "--trust-root", s.trustRoot}, args...)
	cmd := exec.Command(node.program(), args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if out.Len() > 0 && json.Unmarshal(out.Bytes(), &v) != nil {
		t.Fatalf("printed %s", out.String())
	}
	return v, cmd.ProcessState.ExitCode(), complaints.String()
}

// install lays a program down as the version that runs.
func (s *supervisor) install(t *testing.T, version string, program []byte) {
	t.Helper()
	versions := filepath.Join(s.prefix, "versions")
	s.before = [][]string{{filepath.Join(versions, "previous", "viiwork"), "update", "boot", "--config", s.config}}
	for _, err := range []error{
		os.RemoveAll(versions),
		os.MkdirAll(filepath.Join(versions, version), 0o755),
		enginetest.WriteProgram(filepath.Join(versions, version, "viiwork"), program),
		os.Symlink(version, filepath.Join(versions, "current")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { endJudges(s.prefix) })
}

// runs is the version that answers.
func (s *supervisor) runs() (version string) {
	var is struct{ Version string }
	s.call(http.MethodGet, "/v1/status", "", &is)
	return is.Version
}

// TestANodeUnderLoadUpdatesItself: a newer release comes out, the node takes it while clients hammer it, and nobody is
// failed; then four that are no good, each of which is taken back.
func TestANodeUnderLoadUpdatesItself(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	from := openShop(t)
	s, url := place(t, itself(t))
	s.install(t, "v1.0.0", release(t, "v1.0.0"))
	from.publish(t, "v1.0.1", release(t, "v1.0.1"))
	s.supervise(t)
	s.serves(url)
	engines := s.engines()
	l := load{url: url}
	l.begin(8, 20)
	time.Sleep(2 * time.Second) // so that streams are at every point
	v, code, said := from.update(t, s, "--watch", "3s")
	l.end()
	l.tell(t)
	t.Logf("drain %.2f s, swap %.2f s", v.Drain, v.Swap)
	if code != 0 || v.State != "good" || v.Version != "v1.0.1" || s.runs() != "v1.0.1" {
		t.Fatalf("exit %d, %+v, %s runs: %s", code, v, s.runs(), said)
	}
	if after := s.engines(); !maps.Equal(after, engines) || engines["m#0"] == "" {
		t.Errorf("engines were %v, are %v", engines, after)
	}

	bad := badReleases(t)
	for i, c := range []struct{ fault, why string }{
		{"mute", "does not answer"}, {"fails", "500"}, {"crashes", ""}, {"refuses", "there is no such key"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			version, patience := fmt.Sprintf("v1.0.%d", i+2), "60s"
			if c.fault == "mute" { // it ends by itself each 12 s; three times, and its starts would be what is held against it
				patience = "34s" // the old one has as long to be back
			}
			from.publish(t, version, bad(version, c.fault))
			l := load{url: url}
			l.begin(4, 4)
			v, code, said := from.update(t, s, "--watch", "6s", "--patience", patience)
			l.end()
			l.tell(t)
			t.Logf("exit %d: %s", code, strings.TrimSpace(said))
			if code == 0 || !strings.Contains(v.Why+said, c.why) || s.runs() != "v1.0.1" {
				t.Errorf("exit %d, %+v, %s runs: %s", code, v, s.runs(), said)
			}
			if c.fault != "refuses" && (v.State != "taken_back" || v.Fault != "") {
				t.Errorf("got %+v", v)
			}
			if after := s.engines(); !maps.Equal(after, engines) {
				t.Errorf("engines were %v, are %v", engines, after)
			}
		})
	}
}
