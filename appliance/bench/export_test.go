package bench

import (
	"bytes"
	"cmp"
	"net/http"
	"time"

	"viiwork/appliance/status"
)

// What the tests in package bench_test look at from inside.

func PauseOf(h http.Header) time.Duration { return pauseOf(h) }

func Name(text string) string { return name(text) }

// Reading is what the reader of an answer makes of bytes.
type Reading struct {
	Text                   string
	Prompt, Cached, Output int
	Err                    error
}

func Read(data []byte, limit int) Reading {
	s := stream{begun: time.Now(), limit: limit, answer: answer{prompt: -1, cached: -1, output: -1, queue: -1}}
	err := s.read(bytes.NewReader(data))
	return Reading{s.text, s.prompt, s.cached, s.output, err}
}

// Gain is what moving saved at one length, of a prompt that took so many seconds to compute.
type Gain struct {
	Tokens      int
	Cold, Moved float64
	Route       string // "" = pull
	Failed      bool
}

// Judge says what gains come to between aa and bb.
func Judge(gains ...Gain) KVPair {
	p := KVPair{From: "aa", To: "bb"}
	for _, g := range gains {
		m := KVMove{TTFT: g.Moved, Route: cmp.Or(g.Route, "pull")}
		if g.Failed {
			m.Import = &KVImport{Failed: true}
		}
		p.Sizes = append(p.Sizes, KVSize{Tokens: g.Tokens, Cold: g.Cold, Saved: g.Cold - g.Moved, There: m})
	}
	p.judge("")
	return p
}

func ImportBetween(before, after status.KV, home, node string) *KVImport {
	return importBetween(before, after, home, node)
}

func SaveBetween(before, after status.KV, model string) *KVSave {
	return saveBetween(before, after, model)
}
