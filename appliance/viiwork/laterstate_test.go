package main_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/engine"
)

// TestStateOfALaterVersionIsRead: what the next version adds to the files in the state directory, this one passes over. A
// node that goes back to it knows its names and adopts its engines.
func TestStateOfALaterVersionIsRead(t *testing.T) {
	later, url := place(t, itself(t))
	later.supervise(t)
	later.serves(url)
	engines := later.engines()
	if code := later.call(http.MethodPost, "/api/aliases", `{"name":"coder","target":"m"}`, nil); code/100 != 2 {
		t.Fatalf("the alias is answered with %d", code)
	}
	ask := func(model string) {
		t.Helper()
		if err := askOnce(http.DefaultClient, url, `{"model":"`+model+`","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`, false); err != nil {
			t.Fatal(err)
		}
	}
	ask("coder")
	later.stop()
	added := addFields(t, later.state)
	for _, must := range []string{"aliases.json", "handover.json", "rates.json", filepath.Join("engines", engine.SafeName("m#0")+".json")} {
		if !slices.Contains(added, must) {
			t.Errorf("%s is not there: only %q are", must, added)
		}
	}

	old := &supervisor{prefix: later.prefix, config: later.config, state: later.state, store: true, held: later.held}
	old.supervise(t)
	old.serves(url)
	ask("coder")
	if now := old.engines(); !maps.Equal(now, engines) {
		t.Errorf("engines were %v, are %v", engines, now)
	}
	said, err := os.ReadFile(old.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("it complains: %s", line)
		}
	}
}

// addFields gives each JSON document below dir a field that no version has yet, and returns their names.
func addFields(t *testing.T, dir string) (added []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(text, &doc); err != nil {
			return err
		}
		doc["of_a_later_version"] = json.RawMessage(`{"is":["this"]}`)
		if text, err = json.Marshal(doc); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		added = append(added, name)
		if err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return added
}
