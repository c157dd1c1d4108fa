package connect_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/setup/connect"
)

var update = flag.Bool("update", false, "write the golden files anew")

var house = connect.Mesh{URL: "http://127.0.0.1:8086", Models: []connect.Model{
	{ID: "coder", Context: 49152}, {ID: "Qwen3.8-27B", Context: 49152}, {ID: "org/gran'ite \"8b\"", Context: 8192}, {ID: "loading"},
}}

func getenv(set map[string]string) func(string) string {
	return func(name string) string { return set[name] }
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// TestEachClientIsToldWhatItWants, on a fresh machine and in a file that somebody has written already.
func TestEachClientIsToldWhatItWants(t *testing.T) {
	for _, client := range connect.Clients() {
		s, err := connect.For(client, house, "", getenv(map[string]string{"HOME": "/home/ann"}))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, client+".new", s.File+"\n"+s.Text+strings.Join(s.Notes, "\n"))
		if client == "openai" {
			continue
		}
		old, err := os.ReadFile(filepath.Join("testdata", client+".old"))
		if err != nil {
			t.Fatal(err)
		}
		edited, err := s.Edit(old)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, client+".edited", string(edited))
		if again, err := s.Edit(edited); err != nil || string(again) != string(edited) {
			t.Errorf("%s: an edit of what was edited changes it: %v\n%s", client, err, again)
		}
	}
}

func TestModelsThatAreShortOrUnknownAreRemarkedOn(t *testing.T) {
	s, err := connect.For("claude", house, `org/gran'ite "8b"`, getenv(nil))
	if err != nil || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "8192") {
		t.Errorf("%v, %v", s.Notes, err)
	}
	if s, err = connect.For("codex", house, "loading", getenv(nil)); err != nil || len(s.Notes) != 1 || strings.Contains(s.Text, "context_window") {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range []struct{ client, model string }{{"emacs", ""}, {"codex", "nothing"}} {
		if _, err := connect.For(c.client, house, c.model, getenv(nil)); err == nil {
			t.Errorf("%v was taken", c)
		}
	}
	if _, err := connect.For("codex", connect.Mesh{}, "", getenv(nil)); err == nil {
		t.Error("a mesh without models was taken")
	}
	if s, _ := connect.For("openai", house, "", getenv(nil)); s.File != "" {
		t.Error("openai has a file")
	} else if _, err := s.Edit(nil); err == nil {
		t.Error("openai's file was edited")
	}
}

func TestClientsKeepTheirFilesWhereTheySay(t *testing.T) {
	set := map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/k"}
	for client, want := range map[string]string{"opencode": "/x/opencode/opencode.json", "codex": "/c/config.toml", "claude": "/k/settings.json"} {
		if s, err := connect.For(client, house, "", getenv(set)); err != nil || s.File != want {
			t.Errorf("%s: %q, %v", client, s.File, err)
		}
	}
}

func TestFilesThatCannotBeEditedSafelyAreLeftAlone(t *testing.T) {
	for client, texts := range map[string][]string{
		"opencode": {"{", "[]", `{"provider": []}`, `{"a": }`, "{} /*", `{"a" 1}`, `{"a": tru}`, strings.Repeat(`{"a":`, 200)},
		"claude":   {`{"env": "x"}`, "nonsense"},
		"codex": {"model_providers = {a = {}}\n", "model_providers.viiwork.name = 1\n", "[model_providers]\nviiwork = {}\n", "[[model_providers.viiwork]]\n",
			"a = \"\n", "a = [1,\n", "what\n", "a = '''\n", "[\n"},
	} {
		s, err := connect.For(client, house, "", getenv(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if got, err := s.Edit([]byte(text)); err == nil {
				t.Errorf("%s took %q and made\n%s", client, text, got)
			}
		}
	}
}

func FuzzEditOfJSON(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"model": "x", "provider": {"a": {}}}`, "{ // a\n\"b\": [1, 2,], /* c */ }", `{"env":{"A":"1"}}`} {
		f.Add(seed)
	}
	s, err := connect.For("opencode", house, "", getenv(nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := s.Edit([]byte(text))
		if err != nil {
			return
		}
		var was, is map[string]any
		if json.Unmarshal([]byte(text), &was) != nil {
			return // with remarks, or empty
		}
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatalf("%q became no JSON: %v\n%s", text, err, got)
		}
		if is["model"] != "viiwork/Qwen3.8-27B" {
			t.Errorf("%q became\n%s", text, got)
		}
		for key := range was {
			if _, ok := is[key]; !ok {
				t.Errorf("%q lost %q:\n%s", text, key, got)
			}
		}
	})
}

func FuzzEditOfTOML(f *testing.F) {
	for _, seed := range []string{"", "a = 1 # b", "[x]\ny = \"\"\"\n[z]\n\"\"\"\n", "model = 'old'\n\n[model_providers.viiwork]\nname = 1\n[b]", "a = [\n'#',\n]\n", "[0]\nname=0", "]="} {
		f.Add(seed)
	}
	s, err := connect.For("codex", house, "", getenv(nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once, err := s.Edit([]byte(text))
		if err != nil {
			return
		}
		twice, err := s.Edit(once)
		if err != nil || string(twice) != string(once) {
			t.Errorf("%q became\n%s\nand then, %v,\n%s", text, once, err, twice)
		}
	})
}
