package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	viiwork "viiwork/appliance/viiwork"
)

// TestLinesOfLibrariesKeepTheLogsFormAndLevel: a log that is to be JSON is JSON, whoever writes to it.
func TestLinesOfLibrariesKeepTheLogsFormAndLevel(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		var out, before bytes.Buffer
		defer stdlog.SetOutput(stdlog.Writer())
		stdlog.SetOutput(&before)
		release := viiwork.TakeStray(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
		stdlog.Printf("a line of a library")
		release()
		stdlog.Print("later")
		if !bytes.HasSuffix(before.Bytes(), []byte("later\n")) || bytes.Contains(before.Bytes(), []byte("library")) {
			t.Errorf("the process's own log has %q", before.String())
		}
		if level == slog.LevelInfo {
			if out.Len() > 0 {
				t.Errorf("told at level info: %s", out.String())
			}
			continue
		}
		var line struct{ Level, Msg string }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Level != "DEBUG" || line.Msg != "a line of a library" {
			t.Errorf("%v %q", err, out.String())
		}
	}
}

// TestAFaultyConfigurationIsNotReadTwiceASecond by a manager that starts the node again and again; a person, and a refusal, that
// is not started again, are not kept waiting, nor is who asked the node to end while its fault was looked for.
func TestAFaultyConfigurationIsNotReadTwiceASecond(t *testing.T) {
	first := make(chan os.Signal, 1) // what hears signals for a process begins with the first who asks, and is none of a bubble's
	signal.Notify(first, syscall.SIGHUP)
	signal.Stop(first)
	mesh := "mesh: {network: lan, open: true, lan: {mdns: false}}\n"
	late := mesh + "models: [{name: m, path: /m.gguf, llamacpp: {runner: docker, image: rocm-none}}]\n" // a fault that the machine's survey finds
	for name, c := range map[string]struct {
		text, notify, flag string
		code               int
		takes              time.Duration
	}{
		"by a manager":                   {"nodes: {}\n" + mesh, "@manager", "--stop-engines", 1, 10 * time.Second},
		"by a person":                    {"nodes: {}\n" + mesh, "", "--stop-engines", 1, 0},
		"a refusal":                      {"mesh: {network: lan, lan: {mdns: false}}\n", "@manager", "--stop-engines", 4, 0},
		"found late":                     {late, "@manager", "--stop-engines", 1, 10 * time.Second},
		"found late, and asked to leave": {late, "@manager", "--until-eof", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "viiwork.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				began := time.Now()
				code := viiwork.Run(t.Context(), []string{"serve", c.flag, "--config", path}, viiwork.Streams{
					In: strings.NewReader(""), Out: io.Discard, Err: &said, Environ: []string{"NOTIFY_SOCKET=" + c.notify},
				})
				if took := time.Since(began); code != c.code || took != c.takes {
					t.Errorf("exit %d after %s, want %d after %s", code, took, c.code, c.takes)
				}
				if n := strings.Count(said.String(), "mend it and try again"); c.code == 1 && n != 1 || strings.Contains(said.String(), "looked at again in 10s") != (c.takes > 0 || c.flag == "--until-eof") {
					t.Errorf("said:\n%s", said.String())
				}
			})
		})
	}
}
