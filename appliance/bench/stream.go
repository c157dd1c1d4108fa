package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"time"
)

const (
	lineLimit   = 1 << 20
	answerLimit = 256 << 20 // bytes of a whole answer, keep-alives and framing included
	mostTokens  = 1 << 24   // that a count can say and be believed
)

// stream is an answer being read.
type stream struct {
	answer
	begun time.Time
	limit int // bytes of text
	size  int // of those
	body  bytes.Buffer
}

// event is what of a chunk matters here.
type event struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Delta struct {
			Content   string          `json:"content"`
			Reasoning string          `json:"reasoning_content"`
			Tools     json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt  *int `json:"prompt_tokens"`
		Output  *int `json:"completion_tokens"`
		Details *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Timings *struct {
		Cached *int `json:"cache_n"`
		Prompt *int `json:"prompt_n"`
		Output *int `json:"predicted_n"`
	} `json:"timings"`
}

// read reads the events up to [DONE]; an end before it is a broken answer.
func (s *stream) read(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: answerLimit}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 16<<10), lineLimit)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // a comment, a name, an empty line
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return s.end(r)
		}
		if err := s.event(data); err != nil {
			return err
		}
	}
	if limited.N <= 0 || lines.Err() == bufio.ErrTooLong {
		return errTooLong
	}
	return errBrokeOff
}

// end reads what little may follow, for the trailers.
func (s *stream) end(r io.Reader) error {
	_, _ = io.CopyN(io.Discard, r, 64<<10)
	if s.first == 0 {
		s.first = time.Since(s.begun)
	}
	s.text = s.body.String()
	return nil
}

func (s *stream) event(data []byte) error {
	var e event
	if json.Unmarshal(data, &e) != nil {
		return errInAnswer
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		return errInAnswer
	}
	for _, c := range e.Choices {
		if s.first == 0 && (c.Delta.Content != "" || c.Delta.Reasoning != "" || len(c.Delta.Tools) > 0) {
			s.first = time.Since(s.begun)
		}
		if s.size += len(c.Delta.Content) + len(c.Delta.Reasoning); s.size > s.limit {
			return errTooLong
		}
		s.body.WriteString(c.Delta.Content)
	}
	s.count(e)
	return nil
}

// count takes the engine's own figures.
func (s *stream) count(e event) {
	if t := e.Timings; t != nil {
		if t.Prompt != nil && t.Cached != nil && credible(*t.Prompt) && credible(*t.Cached) {
			s.prompt, s.cached = *t.Prompt+*t.Cached, *t.Cached
		}
		take(&s.output, t.Output)
	}
	if u := e.Usage; u != nil {
		take(&s.prompt, u.Prompt)
		take(&s.output, u.Output)
		if u.Details != nil {
			take(&s.cached, u.Details.Cached)
		}
	}
	s.cached = min(s.cached, s.prompt)
}

func credible(tokens int) bool { return tokens >= 0 && tokens <= mostTokens }

func take(to *int, tokens *int) {
	if tokens != nil && credible(*tokens) {
		*to = *tokens
	}
}
