package main_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"viiwork/appliance/config"
	viiwork "viiwork/appliance/viiwork"
)

// TestFirstConfigurationOfReadmeIsValid: what a newcomer copies must not be refused. Its model files are theirs to have.
func TestFirstConfigurationOfReadmeIsValid(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no configuration")
	}
	for _, block := range blocks {
		cfg, err := config.Parse("viiwork.yaml", []byte(block[1]), nil)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if len(cfg.Models) != 3 {
			t.Errorf("%d models, want one for each runner", len(cfg.Models))
		}
	}
}

// TestDocumentsNameTheVerbsThereAre: every verb of the program is named in README.md, and every `viiwork VERB` that a
// document tells the reader to type exists.
func TestDocumentsNameTheVerbsThereAre(t *testing.T) {
	verbs := verbs(t)
	readme := read(t, "README.md")
	for verb := range verbs {
		if !regexp.MustCompile(`\b` + verb + `\b`).MatchString(readme) {
			t.Errorf("README.md does not name %s", verb)
		}
	}
	typed := regexp.MustCompile("(?m)(?:^ +|[`'(])(?:bin/)?viiwork ([a-z-]+)")
	for _, name := range []string{"README.md", "MIGRATING.md", "SECURITY.md", "docs/api.md", "docs/config.md", "docs/setup.md", "docs/bench.md", "docs/kv_share.md", "docs/models.md", "docs/images.md", "docs/container.md", "docs/top.md", "docs/metrics.md", "docs/updates.md"} {
		for _, m := range typed.FindAllStringSubmatch(read(t, name), -1) {
			if !verbs[m[1]] {
				t.Errorf("%s tells the reader to type 'viiwork %s'", name, m[1])
			}
		}
	}
}

// verbs reads them out of the program's own help.
func verbs(t *testing.T) map[string]bool {
	t.Helper()
	var out bytes.Buffer
	if code := viiwork.Run(context.Background(), nil, viiwork.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}); code != 0 {
		t.Fatalf("help ended with %d", code)
	}
	_, list, _ := strings.Cut(out.String(), "Available Commands:\n")
	list, _, found := strings.Cut(list, "\n\n")
	if !found {
		t.Fatalf("no list of commands in %s", out.String())
	}
	names := map[string]bool{}
	for line := range strings.Lines(list) {
		if name := strings.Fields(line)[0]; name != "help" {
			names[name] = true
		}
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutputThatCannotBeWrittenIsAnError: a full disk behind `> file` must not look like success.
func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	var said bytes.Buffer
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"doctor"}, {"completion", "bash"}} {
		s := viiwork.Streams{In: strings.NewReader(""), Out: full{}, Err: &said, Environ: []string{"VIIWORK_CONFIG=/nonexistent/viiwork.yaml"}}
		if code := viiwork.Run(t.Context(), args, s); code != 1 {
			t.Errorf("%v ended with %d, want 1", args, code)
		}
	}
	if !strings.Contains(said.String(), "no space left") {
		t.Errorf("said %q", said.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestComplaintDrivesNoTerminal: what is repeated in an error may be a stranger's.
func TestComplaintDrivesNoTerminal(t *testing.T) {
	var said bytes.Buffer
	s := viiwork.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &said, Environ: []string{"VIIWORK_CONFIG=/nonexistent/\x1b]0;owned\a.yaml"}}
	if code := viiwork.Run(t.Context(), []string{"config", "validate"}, s); code == 0 || strings.ContainsAny(said.String(), "\x1b\a") || !strings.Contains(said.String(), "owned") {
		t.Errorf("ended with %d, said %q", code, said.String())
	}
}
