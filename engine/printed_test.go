package engine_test

import (
	"strings"
	"testing"

	"viiwork/engine"
)

func TestPrintedKeepsTheBeginningAndNeverBlocks(t *testing.T) {
	var p engine.Printed
	for _, text := range []string{"first\n", strings.Repeat("x", 1<<20), "last\n"} {
		if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("%d of %d bytes taken, %v", n, len(text), err)
		}
	}
	if got := p.String(); len(got) != 1<<20 || !strings.HasPrefix(got, "first\nx") || strings.Contains(got, "last") {
		t.Errorf("%d bytes kept, beginning %.10q", len(got), got)
	}
}
