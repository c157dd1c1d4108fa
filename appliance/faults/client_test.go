//go:build linux

package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ending is how an attempt at a request ended, as its client saw it.
type ending int

const (
	answered    ending = iota
	unconnected        // the entry took no connection: it has seen nothing
	refusedThen        // an error status before the first byte
	broken             // an error event, or a connection that broke
	lost               // no end in its time, or an end that looks clean and is none
)

// reply is what came of one attempt.
type reply struct {
	ending     ending
	why        string
	status     int
	retryAfter time.Duration
	queued     time.Duration // in lines, by the entry's own figure
	first      time.Duration // until the first byte of the answer itself
}

// deadline is how long a client waits for an answer's end: longer than any line.
const deadline = time.Minute

var clients = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends a request with a mark to the machine and reads its answer to the end, whatever that is.
func (m *machine) ask(query, mark string, tokens int, stream bool) reply {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	body, _ := json.Marshal(map[string]any{"model": "m", "stream": stream, "max_tokens": tokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": "mark:" + mark + ";"}}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/v1/chat/completions"+query, bytes.NewReader(body))
	if err != nil {
		return reply{ending: lost, why: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	answer, err := clients.Do(req)
	if err != nil {
		return failed(err)
	}
	defer answer.Body.Close()
	r := reply{status: answer.StatusCode}
	switch {
	case answer.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		after, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		r.ending, r.why, r.retryAfter = refusedThen, string(text), time.Duration(after)*time.Second
		return r
	case stream:
		r.readStream(answer.Body, tokens, begun)
	default:
		r.readWhole(answer.Body, tokens, begun)
	}
	queued := answer.Header.Get("X-Viiwork-Queue-Ms")
	if queued == "" {
		queued = answer.Trailer.Get("X-Viiwork-Queue-Ms")
	}
	ms, _ := strconv.Atoi(queued)
	r.queued = time.Duration(ms) * time.Millisecond
	return r
}

// failed is an attempt whose connection failed.
func failed(err error) reply {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return reply{ending: lost, why: "no end within its time"}
	case errors.As(err, &op) && op.Op == "dial":
		return reply{ending: unconnected, why: err.Error()}
	}
	return reply{ending: broken, why: err.Error()}
}

// end sets how the attempt ended, but for an error on the way.
func (r *reply) end(e ending, why string, err error) {
	if err != nil {
		f := failed(err)
		e, why = f.ending, f.why
	}
	r.ending, r.why = e, why
}

type chatEvent struct {
	Error   json.RawMessage
	Choices []struct {
		Delta, Message struct{ Content string }
	}
}

// readStream wants as many bytes of text as there are tokens, and then the mark of a clean end.
func (r *reply) readStream(body io.Reader, tokens int, begun time.Time) {
	lines := bufio.NewScanner(body)
	got := 0
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !isData:
			continue
		case data == "[DONE]":
			r.ending = answered
			if got != tokens {
				r.end(lost, fmt.Sprintf("a clean end after %d of %d tokens", got, tokens), nil)
			}
			return
		}
		var e chatEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			r.end(lost, "an event that is none: "+data, nil)
			return
		}
		if e.Error != nil {
			r.end(broken, string(e.Error), nil)
			return
		}
		for _, c := range e.Choices {
			got += len(c.Delta.Content)
		}
		if got > 0 && r.first == 0 {
			r.first = time.Since(begun)
		}
	}
	r.end(lost, fmt.Sprintf("a clean end without its mark, after %d of %d tokens", got, tokens), lines.Err())
}

// readWhole wants a document with as many bytes of text as there are tokens.
func (r *reply) readWhole(body io.Reader, tokens int, begun time.Time) {
	text, err := io.ReadAll(body)
	r.first = time.Since(begun)
	var e chatEvent
	if err == nil && json.Unmarshal(text, &e) == nil && len(e.Choices) == 1 && len(e.Choices[0].Message.Content) == tokens {
		r.ending = answered
		return
	}
	r.end(lost, fmt.Sprintf("an answer that is none: %.200q", text), err)
}
