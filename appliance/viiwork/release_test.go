package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	viiwork "viiwork/appliance/viiwork"
	"viiwork/update"
	"viiwork/update/build"
	"viiwork/update/updatetest"
)

const (
	owner       = "github.com/owner/viiwork/.github/workflows/release.yml"
	ownerCommit = "0123456789abcdef0123456789abcdef01234567"
)

// says runs one command line and returns its output, its complaints and its exit code.
func says(t *testing.T, args ...string) (out, complaints string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = viiwork.Run(context.Background(), args, viiwork.Streams{In: strings.NewReader(""), Out: &o, Err: &e, Environ: os.Environ()})
	return o.String(), e.String(), code
}

// proved is a directory with a release and its proof, and a trust root by which that holds.
func proved(t *testing.T) (dir, trustRoot string) {
	t.Helper()
	dir, trustRoot = t.TempDir(), filepath.Join(t.TempDir(), "trusted_root.json")
	program := []byte("a program")
	rel := build.Release{Version: "v1.2.3", Commit: ownerCommit, Built: time.Unix(1e9, 0), Publisher: owner}
	index, _, err := build.Layout(dir, rel, map[string][]byte{"linux/amd64": program})
	if err != nil {
		t.Fatal(err)
	}
	sig := updatetest.New(t)
	by := updatetest.Run("owner/viiwork", "v1.2.3", ownerCommit)
	bundle := sig.Sign(updatetest.Signing{Identity: by, Statement: updatetest.Provenance(by, map[string]string{
		"index": strings.TrimPrefix(index, "sha256:"), "program": fmt.Sprintf("%x", sha256.Sum256(program)),
	}).JSON(t)})
	for path, text := range map[string][]byte{
		filepath.Join(dir, "viiwork-v1.2.3.sigstore.json"): bundle, filepath.Join(dir, "viiwork-v1.2.3-linux-amd64"): program, trustRoot: sig.Root(),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, trustRoot
}

func TestReleaseVerifyExplainsEachCheck(t *testing.T) {
	dir, root := proved(t)
	file := filepath.Join(dir, "viiwork-v1.2.3-linux-amd64")
	for name, args := range map[string][]string{"directory": {dir, "--version", "v1.2.3"}, "file": {file}} {
		out, said, code := says(t, append([]string{"release", "verify", "--publisher", owner, "--trust-root", root}, args...)...)
		if code != 0 || !strings.Contains(out, ownerCommit) || strings.Count(out, "ok ") != 9 {
			t.Errorf("%s: exit %d: %s%s", name, code, out, said)
		}
	}

	out, said, code := says(t, "release", "verify", file, "--publisher", strings.Replace(owner, "owner", "other", 1), "--trust-root", root)
	if code != 1 || !strings.Contains(out, "fail  identity") || !strings.Contains(out, "skip  provenance") || !strings.Contains(said, "viiwork: release verify: ") {
		t.Errorf("another publisher: exit %d: %s%s", code, out, said)
	}
	out, _, code = says(t, "release", "verify", file, "--publisher", owner, "--json") // by Sigstore's own keys
	var report update.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || report.OK {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	if bad := report.Checks[1]; bad.ID != "log" || bad.State != update.Fail || !strings.Contains(bad.Fix, "may be stale") {
		t.Errorf("%+v", bad)
	}
}

func TestReleaseVerifyNeedsToKnowWhatAndWhose(t *testing.T) {
	dir, _ := proved(t)
	for _, args := range [][]string{
		{"verify", dir, "--version", "v1.2.3"}, // this build names no publisher
		{"verify", dir, "--publisher", owner},
		{"verify", filepath.Join(dir, "index.json"), "--publisher", owner},
		{"verify", "ghcr.io/owner/viiwork", "--publisher", owner},
		{"verify", dir, "--version", "v1.2.3", "--bundle", "x", "--publisher", owner},
		{"reproduce", "v1.2.3"},
	} {
		if out, said, code := says(t, append([]string{"release"}, args...)...); code != 2 || !strings.Contains(said, "say --") && !strings.Contains(said, "--bundle goes") {
			t.Errorf("%v: exit %d: %s%s", args, code, out, said)
		}
	}
}

func TestUpdateOfABuildWithoutPublisherIsRefused(t *testing.T) {
	config := filepath.Join(t.TempDir(), "viiwork.yaml")
	text := "node: {name: attic, state_dir: " + t.TempDir() + "}\nmesh: {network: lan, open: true}\nmodels: []\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, said, code := says(t, "update", "--check", "--config", config); code != 4 || !strings.Contains(said, "names no publisher") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	for _, args := range [][]string{{"update", "--rollback", "--check"}, {"update", "--rollback", "--to", "v1.2.3"}, {"update", "--check", "--allow-downgrade"}} {
		if out, said, code := says(t, args...); code != 2 {
			t.Errorf("%v: exit %d: %s%s", args, code, out, said)
		}
	}
}

// TestReleaseIsReproduced builds a small program by the product's own rules, again from another folder, and then from a
// changed source.
func TestReleaseIsReproduced(t *testing.T) {
	source := smallTree(t)
	out := filepath.Join(t.TempDir(), "out")
	if said, complaints, code := says(t, "release", "build", "v1.2.3", "--source", source, "--out", out, "--publisher", owner); code != 0 {
		t.Fatalf("exit %d: %s%s", code, said, complaints)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	command(t, "", "git", "clone", "-q", source, elsewhere)
	said, complaints, code := says(t, "release", "reproduce", "v1.2.3", "--from", out, "--source", elsewhere, "--unproved")
	if code != 0 || !strings.HasPrefix(said, "equal: v1.2.3 ") {
		t.Fatalf("exit %d: %s%s", code, said, complaints)
	}
	if _, complaints, code = says(t, "release", "reproduce", "v1.2.3", "--from", out, "--source", elsewhere, "--publisher", owner); code != 1 || !strings.Contains(complaints, "no proof was found") {
		t.Errorf("without a proof: exit %d: %s", code, complaints)
	}
	command(t, elsewhere, "git", "-c", "user.name=t", "-c", "user.email=t@example", "commit", "-q", "--allow-empty", "-m", "another commit")
	said, complaints, code = says(t, "release", "reproduce", "v1.2.3", "--from", out, "--source", elsewhere, "--unproved")
	if code != 1 || !strings.Contains(said, "linux/amd64, program: published ") || complaints != "building for linux/amd64\npacking v1.2.3\n" {
		t.Errorf("another commit: exit %d: %s%s", code, said, complaints)
	}
}

func smallTree(t *testing.T) string {
	t.Helper()
	text := read(t, "update/build/build.json")
	var recipe map[string]any
	if err := json.Unmarshal([]byte(text), &recipe); err != nil {
		t.Fatal(err)
	}
	recipe["package"], recipe["platforms"], recipe["toolchain"] = ".", []string{"linux/amd64"}, runtime.Version()
	changed, err := json.Marshal(recipe)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26\n", "main.go": "package main\n\nvar version, commit string\n\nfunc main() { println(version, commit) }\n",
		"update/build/build.json": string(changed),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command(t, dir, "git", "init", "-q")
	command(t, dir, "git", "add", ".")
	command(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example", "commit", "-q", "-m", "all of it")
	return dir
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func TestUpdateCheckSaysWhatIsNewFromWhomAndHowProved(t *testing.T) {
	t.Cleanup(viiwork.StampPublisher(owner))
	dir, root := proved(t)
	state := t.TempDir()
	config := filepath.Join(t.TempDir(), "viiwork.yaml")
	text := "node: {name: attic, state_dir: " + state + "}\nmesh: {network: lan, open: true}\nmodels: []\nupdate: {source: " + dir + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(more ...string) (out, said string, code int) {
		return says(t, append([]string{"update", "--check", "--config", config, "--trust-root", root}, more...)...)
	}
	out, said, code := check()
	for _, want := range []string{"v1.2.3 is new", owner, ownerCommit, "9 checks held"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in %s%s", code, want, out, said)
		}
	}
	out, said, code = check("--json")
	var offer update.Offer
	if err := json.Unmarshal([]byte(out), &offer); err != nil || code != 0 || !offer.New || offer.Version != "v1.2.3" || offer.Report == nil || !offer.Report.OK {
		t.Errorf("exit %d, %v: %s%s", code, err, out, said)
	}
	if out, said, code = check("--to", "v1.2.3"); code != 0 || strings.Count(out, "ok ") != 9 {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	if out, said, code = check("--to", "v1.0.0"); code != 4 || !strings.Contains(said, "--allow-downgrade") {
		t.Errorf("an older one: exit %d: %s%s", code, out, said)
	}
	if out, said, code = check("--to", "v1.0.0", "--allow-downgrade"); code != 1 || !strings.Contains(said, "v1.0.0") {
		t.Errorf("one that is not there: exit %d: %s%s", code, out, said)
	}
}
