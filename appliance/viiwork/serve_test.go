package main_test

import (
	"bytes"
	"encoding/json"
	stdlog "log"
	"log/slog"
	"testing"

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
