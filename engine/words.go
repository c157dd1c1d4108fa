package engine

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
)

const (
	lastWords  = 20      // lines
	maxWords   = 4 << 10 // bytes of them
	logTime    = 3 * time.Second
	maxLogTail = 64 << 10
)

// withLastWords adds to err what the engine printed last: mostly it says there why it ended.
func withLastWords(ctx context.Context, t *term, err error) error {
	text := logTail(ctx, t.proc, lastWords)
	if t.target.Key != "" {
		text = strings.ReplaceAll(text, t.target.Key, "…")
	}
	text = printable(text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-lastWords):], "\n")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[len(text)-maxWords:], "")
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w; its last words:\n%s", err, text)
}

// printable takes the terminal's control codes out: the text goes to other people's screens.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, ""))
}

// logTail is the end of a process's log, "" when it cannot be had.
func logTail(ctx context.Context, p Process, lines int) string {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	var tail tailWriter
	if err := p.Logs(ctx, &tail, lines, false); err != nil && len(tail.kept) == 0 {
		return ""
	}
	return string(tail.kept)
}

// tailWriter keeps the last maxLogTail bytes written to it.
type tailWriter struct{ kept []byte }

func (t *tailWriter) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxLogTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}
