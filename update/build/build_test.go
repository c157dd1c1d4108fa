package build_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/update/build"
)

var regexpToolchain = regexp.MustCompile(`"toolchain": ?"[^"]*"`)

const owner = "github.com/owner/viiwork/.github/workflows/release.yml"

// tree is a checkout of a program of a few lines, with the product's own build.json but for the package, one platform and
// the toolchain, which is the one at hand.
func tree(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile("build.json")
	if err != nil {
		t.Fatal(err)
	}
	var recipe map[string]any
	if err := json.Unmarshal(text, &recipe); err != nil {
		t.Fatal(err)
	}
	recipe["package"], recipe["platforms"], recipe["toolchain"] = ".", []string{"linux/amd64"}, runtime.Version()
	if text, err = json.Marshal(recipe); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26\n", "LICENSE": "do what you like\n", "update/build/build.json": string(text),
		"main.go": "package main\n\nvar version, commit, built, publisher string\n\nfunc main() { println(version, commit, built, publisher) }\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "all of it")
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func release(t *testing.T, source, out string) build.Record {
	t.Helper()
	r, err := build.Make(t.Context(), build.Options{Source: source, Out: out, Version: "v1.2.3", Publisher: owner})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// files reads all that lies below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		found[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestTwoBuildsAreEqual in all that two builders could differ in: folder, home, caches, time zone, umask, and settings of
// the Go command in the environment and in its file.
func TestTwoBuildsAreEqual(t *testing.T) {
	source := tree(t, filepath.Join(t.TempDir(), "here"))
	firstOut := filepath.Join(t.TempDir(), "a")
	first := release(t, source, firstOut)

	elsewhere := filepath.Join(t.TempDir(), "some", "where", "else")
	if err := os.MkdirAll(filepath.Dir(elsewhere), 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, source, "clone", "-q", source, elsewhere)
	home := t.TempDir()
	settings := filepath.Join(home, "goenv")
	if err := os.WriteFile(settings, []byte("GOFLAGS=-tags=other\nGOAMD64=v3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"HOME": home, "TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "GOENV": settings, "GOAMD64": "v2", "GOEXPERIMENT": "nogreenteagc",
		"GOFLAGS": "-trimpath=false", "GOCACHE": filepath.Join(home, "cache"), "CGO_ENABLED": "1", "SOURCE_DATE_EPOCH": "1",
	} {
		t.Setenv(key, value)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	secondOut := filepath.Join(t.TempDir(), "b")
	second := release(t, elsewhere, secondOut)

	if d := build.Compare(first, second); len(d) > 0 || first.Index != second.Index {
		t.Fatalf("they differ: %v", d)
	}
	a, b := files(t, firstOut), files(t, secondOut)
	if !maps.Equal(a, b) {
		for name := range a {
			if a[name] != b[name] {
				t.Errorf("%s differs", name)
			}
		}
		t.Fatalf("the directories differ: %d and %d files", len(a), len(b))
	}
}

func TestReleaseIsWhatItsFilesSay(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	source := tree(t, t.TempDir())
	r := release(t, source, out)
	made := files(t, out)
	if err := exec.Command("sh", "-c", "cd '"+out+"' && sha256sum -c --quiet SHA256SUMS").Run(); err != nil {
		t.Errorf("SHA256SUMS: %v", err)
	}
	archive := filepath.Join(out, "viiwork-v1.2.3-linux-amd64.tar.gz")
	program := filepath.Join(t.TempDir(), "viiwork")
	if err := exec.Command("sh", "-c", "tar -xzf '"+archive+"' -O viiwork >'"+program+"' && chmod +x '"+program+"'").Run(); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(program).CombinedOutput()
	if want := "v1.2.3 " + r.Commit + " 2026-01-02T03:04:05Z " + owner; err != nil || strings.TrimSpace(string(said)) != want {
		t.Errorf("the program says %q, %v; want %q", said, err, want)
	}
	if !strings.Contains(made["subjects.txt"], r.Platforms["linux/amd64"].Program) || !strings.Contains(made["subjects.txt"], strings.TrimPrefix(r.Index, "sha256:")) {
		t.Errorf("subjects.txt names not all that must be proved:\n%s", made["subjects.txt"])
	}
	var parts struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(made["viiwork-v1.2.3.cdx.json"]), &parts); err != nil || parts.Format != "CycloneDX" || len(parts.Components) == 0 {
		t.Errorf("the list of parts: %+v, %v", parts, err)
	}
}

func TestBuildThatNobodyCouldRepeatIsRefused(t *testing.T) {
	source := tree(t, t.TempDir())
	try := func(o build.Options) error {
		if o.Source == "" {
			o.Source = source
		}
		o.Out = filepath.Join(t.TempDir(), "out")
		_, err := build.Make(context.Background(), o)
		return err
	}
	for name, o := range map[string]build.Options{
		"no version":     {Version: "1.2.3"},
		"flags smuggled": {Version: "v1.2.3", Publisher: "x -extld=evil"},
		"no checkout":    {Version: "v1.2.3", Source: t.TempDir()},
	} {
		if err := try(o); err == nil {
			t.Errorf("%s: it was built", name)
		}
	}
	if err := os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := try(build.Options{Version: "v1.2.3"}); err == nil || !strings.Contains(err.Error(), "in no commit") {
		t.Errorf("a tree with changes: %v", err)
	}
}

func TestToolchainIsExact(t *testing.T) {
	source := tree(t, t.TempDir())
	path := filepath.Join(source, "update", "build", "build.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, toolchain := range []string{"go1.26", "local", "go1.0.99"} {
		changed := regexpToolchain.ReplaceAll(text, []byte(`"toolchain":"`+toolchain+`"`))
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, source, "commit", "-qam", "another toolchain")
		t.Setenv("GOPROXY", "off") // no toolchain is fetched for this
		if _, err := build.Make(t.Context(), build.Options{Source: source, Out: filepath.Join(t.TempDir(), "out"), Version: "v1.2.3"}); err == nil {
			t.Errorf("%s was taken", toolchain)
		}
	}
}

func TestCompareNamesTheInnermostLevel(t *testing.T) {
	rel := build.Release{Version: "v1.2.3", Commit: strings.Repeat("a", 40), Built: time.Unix(1e9, 0), Publisher: owner}
	record := func(rel build.Release, programs map[string][]byte) build.Record {
		index, levels, err := build.Layout(t.TempDir(), rel, programs)
		if err != nil {
			t.Fatal(err)
		}
		return build.Record{Index: index, Platforms: levels}
	}
	both := map[string][]byte{"linux/amd64": []byte("a"), "linux/arm64": []byte("b")}
	published := record(rel, both)
	later, mine := rel, rel
	later.Built, mine.Publisher = rel.Built.Add(time.Second), ""
	packed := record(rel, both)
	p := packed.Platforms["linux/arm64"]
	p.Layer, p.Manifest = "other", "other"
	packed.Platforms["linux/arm64"] = p
	for name, c := range map[string]struct {
		rebuilt build.Record
		want    []string
	}{
		"equal":             {record(rel, both), nil},
		"another program":   {record(rel, map[string][]byte{"linux/amd64": []byte("a"), "linux/arm64": []byte("c")}), []string{"linux/arm64 program"}},
		"one platform less": {record(rel, map[string][]byte{"linux/amd64": []byte("a")}), []string{"linux/arm64 platform"}},
		"another time":      {record(later, both), []string{"linux/amd64 manifest", "linux/arm64 manifest"}},
		"another publisher": {record(mine, both), []string{"linux/amd64 manifest", "linux/arm64 manifest"}},
		"another gzip":      {packed, []string{"linux/arm64 layer"}},
		"another index":     {build.Record{Index: "sha256:other", Platforms: published.Platforms}, []string{" index"}},
	} {
		var got []string
		for _, d := range build.Compare(published, c.rebuilt) {
			got = append(got, d.Platform+" "+d.Level)
		}
		if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestDirectoryHoldsSeveralReleases(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"v1.0.0", "v1.1.0", "v1.0.0"} {
		rel := build.Release{Version: v, Commit: strings.Repeat("a", 40), Built: time.Unix(1e9, 0)}
		if _, _, err := build.Layout(dir, rel, map[string][]byte{"linux/amd64": []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(files(t, dir)["index.json"], "ref.name"); n != 2 {
		t.Errorf("%d releases, want 2", n)
	}
}

// TestWorkflowAndMakefileBuildAlike: the toolchain and the tags stand in two places each.
func TestWorkflowAndMakefileBuildAlike(t *testing.T) {
	var recipe struct {
		Toolchain string
		Tags      []string
	}
	text, err := os.ReadFile("build.json")
	if err == nil {
		err = json.Unmarshal(text, &recipe)
	}
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	for name, want := range map[string]string{
		".github/workflows/release.yml": "go-version: " + strings.TrimPrefix(recipe.Toolchain, "go") + " ",
		"Makefile":                      "TAGS    := " + strings.Join(recipe.Tags, ",") + "\n",
	} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v", name, want, err)
		}
	}
}
