package setup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/setup"
)

func TestDiffShowsWhatChangesAndLittleElse(t *testing.T) {
	old := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n"
	got := setup.Diff("x", old, strings.Replace(strings.Replace(old, "b\n", "B\n", 1), "l\n", "", 1)+"n\n")
	want := `--- x
+++ x, new
@@ -1,5 +1,5 @@
 a
-b
+B
 c
 d
 e
@@ -9,5 +9,5 @@
 i
 j
 k
-l
 m
+n
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if got := setup.Diff("x", old, old); got != "" {
		t.Errorf("nothing changed: %s", got)
	}
	if got := setup.Diff("x", strings.Repeat("a\n", 9000), "b\n"); len(got) > 100 {
		t.Errorf("a long text is compared line by line: %d bytes", len(got))
	}
}

// TestDifferenceTellsNoSecretOfOthers: of an old configuration, or of a client's file that has keys of other providers.
func TestDifferenceTellsNoSecretOfOthers(t *testing.T) {
	for _, line := range []string{
		`    auth_key: tskey-s3cr3t`, `    auth_key: "tskey-\"s3cr3t"`, `mesh: {tailnet: {auth_key: s3cr3t, hostname: shown}}`,
		`  "ANTHROPIC_AUTH_TOKEN": "s3cr3t",`, `  "apiKey": "s3cr3t", "other": "shown"`, `OPENAI_API_KEY=s3cr3t`,
		`env = { API_KEY = "s3cr3t", MODE = 'shown' }`, `http_headers = { Authorization = 'Bearer s3cr3t' }`, `Authorization: Bearer s3cr3t`,
		`password : s3cr3t`, `client-secret: s3cr3t`,
	} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, diff, err := setup.Plan{}.Compare(setup.File{Path: path, Mode: 0o600, Content: []byte("new: 1\n")})
		if err != nil || !strings.Contains(diff, "****") || strings.Contains(diff, "s3cr3t") || strings.Contains(line, "shown") != strings.Contains(diff, "shown") {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
		file := setup.File{Path: path, Content: []byte(line + "\n")}
		if strings.Contains(file.Shown(), "s3cr3t") {
			t.Errorf("shown: %s", file.Shown())
		}
	}
	for _, line := range []string{"secret_env: VIIWORK_MESH_SECRET", `"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "4096"`, "model_auto_compact_token_limit = 4096", "keys: [a]"} {
		if got := (setup.File{Content: []byte(line)}).Shown(); got != line {
			t.Errorf("%s is hidden: %s", line, got)
		}
	}
}
