package bench

import (
	"bytes"
	"net/http"
	"time"
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
