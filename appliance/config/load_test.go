package config_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"viiwork/appliance/config"
)

const secretWord = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" // 32 bytes

var secured = []string{"VIIWORK_MESH_SECRET=" + secretWord}

// parse reads text as an open mesh's file and fails the test on any fault. The line about the mesh comes last, so that
// positions in text stand.
func parse(t *testing.T, text string, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Parse("viiwork.yaml", []byte(text+"\nmesh: {open: true}\n"), environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnchorsAndMergesAreRead(t *testing.T) {
	c := parse(t, `
models:
  - &base {name: a, path: a.gguf, parallel: 3, llamacpp: &l {runner: native, threads: 2}}
  - {<<: *base, name: b, path: b.gguf}
  - {name: c, path: c.gguf, llamacpp: {<<: [*l, {split_mode: row, threads: 9}], binary: x}}`)
	if m := c.Models[1]; m.Name != "b" || m.Parallel != 3 || m.Llamacpp.Threads != 2 {
		t.Errorf("merged model is %+v", m)
	}
	if l := c.Models[2].Llamacpp; l.Runner != "native" || l.Threads != 2 || l.SplitMode != "row" || l.Binary != "x" {
		t.Errorf("merged block is %+v", l)
	}
}

func TestTextTakesNumbersAsWritten(t *testing.T) {
	c := parse(t, "models: [{name: a, path: a, args: [-ngl, 010, --x, 1.50, true], env: {N: 4, Y: 2001-01-01}}]")
	if got := strings.Join(c.Models[0].Args, " "); got != "-ngl 010 --x 1.50 true" {
		t.Errorf("args are %s", got)
	}
	if env := c.Models[0].Env; env["N"] != "4" || env["Y"] != "2001-01-01" {
		t.Errorf("env is %v", env)
	}
}

func TestAccessRulesKeepTheirShape(t *testing.T) {
	c := parse(t, "access: {rules: [{who: [a, b], models: x, limit: 3, on: true, since: 2001-01-01}]}")
	want := []any{map[string]any{"who": []any{"a", "b"}, "models": "x", "limit": 3, "on": true, "since": "2001-01-01"}}
	if !reflect.DeepEqual(c.Access.Rules, want) {
		t.Errorf("rules are %#v", c.Access.Rules)
	}
}

func TestFileThatCannotBeReadIsNotAFault(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "write it, or name another with --config",
		dir:                             "is a directory",
	} {
		_, err := config.Load(path, nil)
		var faults config.Faults
		if err == nil || errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestFindSaysWhereItLooked(t *testing.T) {
	t.Chdir(t.TempDir())
	env := func(v string) func(string) string {
		return func(name string) string {
			if name == "VIIWORK_CONFIG" {
				return v
			}
			return ""
		}
	}
	if got, err := config.Find("/flag.yaml", env("/env.yaml")); got != "/flag.yaml" || err != nil {
		t.Errorf("flag: %s, %v", got, err)
	}
	if got, err := config.Find("", env("/env.yaml")); got != "/env.yaml" || err != nil {
		t.Errorf("variable: %s, %v", got, err)
	}
	if _, err := os.Stat("/etc/viiwork/viiwork.yaml"); err != nil {
		_, err := config.Find("", env(""))
		for _, part := range []string{"--config", "VIIWORK_CONFIG", "viiwork.yaml", "/etc/viiwork/viiwork.yaml"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not name %s: %v", part, err)
			}
		}
	}
	os.WriteFile("viiwork.yaml", nil, 0o600)
	if got, err := config.Find("", env("")); got != "viiwork.yaml" || err != nil {
		t.Errorf("working directory: %s, %v", got, err)
	}
}

func TestMissingModelFilesAreFoundAtTheirLine(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "good.gguf"), []byte("GGUF"), 0o600)
	os.WriteFile(filepath.Join(dir, "empty.gguf"), nil, 0o600)
	os.Mkdir(filepath.Join(dir, "folder.gguf"), 0o700)
	c := parse(t, `models_dir: `+dir+`
models:
  - {name: a, path: good.gguf}
  - {name: b, path: gone.gguf}
  - name: c
    path: folder.gguf
  - {name: d, path: empty.gguf}
  - {name: e, path: ignored, llamacpp: {runner: external, url: "http://h:1"}}`)
	var got []string
	for _, f := range c.CheckFiles() {
		got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Key, f.Message))
	}
	want := []string{
		"4:21 models[1].path " + dir + "/gone.gguf does not exist: download it, or correct path or models_dir",
		"6:11 models[2].path " + dir + "/folder.gguf is a directory: name the GGUF file in it (of several shards the first)",
		"7:21 models[3].path " + dir + "/empty.gguf is empty: download it again",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	base := "models: [{name: a, path: /a}]\naccess: {rules: []}\n"
	for _, tc := range []struct {
		text    string
		models  bool
		restart string
	}{
		{base, false, "[]"},
		{"\n\n" + base + "api: {hosts: []}\nlog: {level: info}", false, "[]"},
		{"models: [{name: a, path: /a, parallel: 2}]", true, "[]"},
		{"models: [{name: a, path: /a}]\naccess: {rules: [x]}\naliases: {x: a}", false, "[]"},
		{base + "api: {port: 1234}\nlog: {level: debug}", false, "[api log]"},
		{"models_dir: /y\n" + base, false, "[]"},
	} {
		models, restart := config.Changes(parse(t, base), parse(t, tc.text))
		if models != tc.models || fmt.Sprint(restart) != tc.restart {
			t.Errorf("%q: got %v %v, want %v %v", tc.text, models, restart, tc.models, tc.restart)
		}
	}
}

func TestFaultsFoundElsewhereGetAPosition(t *testing.T) {
	c := parse(t, "models:\n  - name: a\n    path: /a\n    gpus:\n      - 7", "VIIWORK_LOG_LEVEL=debug")
	for key, want := range map[string]string{
		"models[0].gpus[0]":      "viiwork.yaml:5:9",
		"models[0].gpus":         "viiwork.yaml:4:5",
		"models[0].path":         "viiwork.yaml:3:11",
		"models[0].llamacpp.url": "viiwork.yaml:2:5", // not written: the entry it belongs to
		"models[3]":              "viiwork.yaml:1:1",
		"health.stall":           "viiwork.yaml:1:1",
		"mesh.seeds":             "viiwork.yaml:6:7",
		"log.level":              "env VIIWORK_LOG_LEVEL",
		"":                       "viiwork.yaml:1:1",
	} {
		if got := c.Pos(key).String(); got != want {
			t.Errorf("%s stands at %s, want %s", key, got, want)
		}
	}
	f := c.Fault("models[0].gpus[0]", "no card %d", 7)
	if got := f.Error(); got != "viiwork.yaml:5:9: models[0].gpus[0]: no card 7" {
		t.Error(got)
	}
}

func TestConfigBuiltInCodeKnowsNoPositions(t *testing.T) {
	c := &config.Config{Node: config.Node{Name: "x"}, Mesh: config.Mesh{Secret: []byte("hush")}}
	if c.Pos("node.name").File != "" || c.File() != "" || len(c.Show()) == 0 {
		t.Error("a zero source answered")
	}
	if text := fmt.Sprintf("%v %+v %#v", c, *c, c.Mesh); strings.Contains(text, "hush") || strings.Contains(text, fmt.Sprint([]byte("hush"))) {
		t.Errorf("printing spilt the secret: %s", text)
	}
}

func TestSecretIsDecoded(t *testing.T) {
	raw, _ := base64.StdEncoding.DecodeString(secretWord)
	path := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(path, []byte(secretWord+"\n"), 0o640)
	for _, environ := range [][]string{secured, {"VIIWORK_MESH_SECRET_FILE=" + path}, {"VIIWORK_MESH_SECRET=", "VIIWORK_MESH_SECRET_FILE=" + path}} {
		c, err := config.Parse("viiwork.yaml", nil, append(environ, "VIIWORK_MESH_SECRET_PREV="+strings.TrimRight(secretWord, "=")))
		if err != nil {
			t.Fatal(err)
		}
		if string(c.Mesh.Secret) != string(raw) || string(c.Mesh.SecretPrev) != string(raw) || len(c.Warnings()) > 0 {
			t.Errorf("%v: got %d bytes, warnings %v", environ, len(c.Mesh.Secret), c.Warnings())
		}
	}
	os.Chmod(path, 0o644)
	c, err := config.Parse("viiwork.yaml", nil, []string{"VIIWORK_MESH_SECRET_FILE=" + path})
	if err != nil || len(c.Warnings()) != 1 {
		t.Errorf("a secret readable by all: %v, %v", c.Warnings(), err)
	}
}
