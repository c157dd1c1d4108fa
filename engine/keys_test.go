package engine_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"viiwork/engine"
)

// TestNoKeyInLogOrErrorText: an engine that prints the key it was given, as it ends, does not make us repeat it.
func TestNoKeyInLogOrErrorText(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log syncBuffer
		h := newHouse(t, func(c *engine.Config) {
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		var key string
		h.runner.made = func(p *fakeProcess) {
			text, err := os.ReadFile(p.spec.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			key = string(bytes.TrimSpace(text))
			p.log = "unauthorized: the key is " + key + "\n"
		}
		h.run(h.model("m", 1, 1))
		pass(2 * time.Second)
		h.runner.all()[0].die("exit status 1")
		pass(100 * time.Millisecond)
		told := h.want("m#0", engine.StateRestarting).Err
		h.stop()
		if len(key) != 64 || !strings.Contains(told, "the key is") || !strings.Contains(log.String(), "the key is") {
			t.Fatalf("the canary is not in the air: key of %d characters, %q, %s", len(key), told, log.String())
		}
		if strings.Contains(told, key) || strings.Contains(log.String(), key) {
			t.Errorf("the key is told: %q, %s", told, log.String())
		}
	})
}
