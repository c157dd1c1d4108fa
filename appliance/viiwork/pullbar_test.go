package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
)

// TestBarTellsHowLongItTakes: the rate is that of what comes, however often it is told and whatever was there before.
func TestBarTellsHowLongItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		var said bytes.Buffer
		b := newPullBar(&cli{Streams: Streams{Err: &said}}, "attic")
		b.at(status.Pull{File: "m.gguf", State: modelcopy.StateWaiting})
		b.at(status.Pull{File: "m.gguf", State: modelcopy.StateCopying, Bytes: 1000 * mib, Size: 2000 * mib})
		for i := range 3100 { // 31 s
			time.Sleep(10 * time.Millisecond)
			b.at(status.Pull{File: "m.gguf", State: modelcopy.StateCopying, Bytes: (1000 + int64(i)/10) * mib, Size: 2000 * mib})
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines in 31 s:\n%s", len(lines), said.String())
		}
		if want := "waiting: attic gives"; !strings.HasPrefix(lines[0], want) {
			t.Errorf("%q, want %q", lines[0], want)
		}
		if want := "[###############---------] 1.3 GiB of 2.0 GiB  10.0 MiB/s  1m"; !strings.HasPrefix(lines[2], want) {
			t.Errorf("%q, want %q", lines[2], want)
		}
	})
}
