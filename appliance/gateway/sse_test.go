package gateway_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"viiwork/appliance/gateway"
)

func readEvents(r io.Reader) (list []string, err error) {
	e := gateway.NewReading(r)
	defer e.Release()
	for {
		ev, err := e.Next()
		if err != nil {
			return list, err
		}
		list = append(list, string(ev))
	}
}

func TestEventsAreReadWholeHoweverTheyArrive(t *testing.T) {
	want := []string{"data: a\n\n", "event: x\ndata: b\n\n", ": ping\n\n", "data: c\r\n\r\n", "data: " + strings.Repeat("x", 100_000) + "\n\n", "data: d\n\n"}
	all := strings.Join(want, "")
	for name, r := range map[string]io.Reader{"at once": strings.NewReader(all), "by byte": iotest.OneByteReader(strings.NewReader(all)), "in halves": iotest.HalfReader(strings.NewReader(all)), "end with data": iotest.DataErrReader(strings.NewReader(all))} {
		got, err := readEvents(r)
		if err != io.EOF || len(got) != len(want) {
			t.Fatalf("%s: %d events, %v", name, len(got), err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: event %d is %.60q", name, i, got[i])
			}
		}
	}
}

func TestAnEventCutShortIsNoEnd(t *testing.T) {
	for _, s := range []string{"data: a\n\ndata: b", "data: b\n"} {
		if _, err := readEvents(strings.NewReader(s)); err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", s, err)
		}
	}
	broken := errors.New("reset")
	if _, err := readEvents(io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(broken))); err != broken {
		t.Errorf("%v", err)
	}
}

// endless is a stream whose event never ends.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}

func TestAnEventIsBounded(t *testing.T) {
	r := &endless{}
	if _, err := readEvents(r); err == nil || r.read > 2*gateway.MaxEvent {
		t.Errorf("%v after %d bytes", err, r.read)
	}
}

// FuzzEvents: nothing an engine sends makes the reader panic, lose a byte of a whole event or invent one, and taking
// events apart is as safe.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "\n\n\n", "data:\r\n\r\ndata: x\n\n", "event: e\ndata: 1\ndata: 2\n\n", "error: {\n\n", "\r\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		at := 0
		e := gateway.NewReading(iotest.HalfReader(bytes.NewReader(b)))
		defer e.Release()
		for {
			ev, err := e.Next()
			if err != nil {
				break
			}
			if !bytes.HasPrefix(b[at:], ev) || len(ev) == 0 {
				t.Fatalf("at %d: %q", at, ev)
			}
			at += len(ev)
			gateway.Fields(ev)
		}
		if bytes.Contains(b[at:], []byte("\n\n")) {
			t.Fatalf("left %q", b[at:])
		}
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/infill"} {
			_, _ = gateway.Assemble(path, b)
		}
	})
}
