package wizard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Plain asks in lines of text, for screen readers and pipes. The library that draws our forms has a mode for that as well,
// but it takes the end of the input for an answer.
type Plain struct {
	out   io.Writer
	lines chan string // closed at the end of the input
}

// maxLine is more than any answer has, a join code included.
const maxLine = 16 << 10

// NewPlain reads answers from in, a line each, until ctx ends.
func NewPlain(ctx context.Context, in io.Reader, out io.Writer) *Plain {
	p := &Plain{out: out, lines: make(chan string)}
	go func() { // a read of a terminal cannot be interrupted: it ends with the process at the latest
		defer close(p.lines)
		for reader := bufio.NewReaderSize(in, maxLine); ; {
			line, more, err := reader.ReadLine()
			if err != nil {
				return
			}
			text := string(line)
			for more && err == nil { // too long to be an answer: its beginning is judged as one, and its rest is none
				_, more, err = reader.ReadLine()
			}
			select {
			case p.lines <- text:
			case <-ctx.Done():
				return
			}
		}
	}()
	return p
}

// Tell shows lines to read.
func (p *Plain) Tell(text string) { fmt.Fprintln(p.out, strings.TrimRight(shown(text), "\n")) }

// Choose asks for a number.
func (p *Plain) Choose(ctx context.Context, q Question) (int, error) {
	p.head(q)
	for {
		line, err := p.read(ctx, fmt.Sprintf("number, Enter for %d: ", q.At+1))
		if err != nil {
			return 0, err
		}
		if line == "" {
			return q.At, nil
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Options) {
			return n - 1, nil
		}
		fmt.Fprintf(p.out, "Write a number from 1 to %d.\n", len(q.Options))
	}
}

// Pick asks for numbers.
func (p *Plain) Pick(ctx context.Context, q Question) ([]int, error) {
	p.head(q)
	usual := "none"
	if len(q.Picked) > 0 {
		usual = numbers(q.Picked)
	}
	for {
		line, err := p.read(ctx, fmt.Sprintf("numbers with blanks between them, 0 for none, Enter for %s: ", usual))
		if err != nil {
			return nil, err
		}
		if line == "" {
			return q.Picked, nil
		}
		if picked, ok := parseNumbers(line, len(q.Options)); ok {
			return picked, nil
		}
		fmt.Fprintf(p.out, "Write numbers from 1 to %d, or 0.\n", len(q.Options))
	}
}

func numbers(picked []int) string {
	words := make([]string, len(picked))
	for i, n := range picked {
		words[i] = strconv.Itoa(n + 1)
	}
	return strings.Join(words, " ")
}

func parseNumbers(line string, most int) (picked []int, ok bool) {
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > most {
			return nil, false
		}
		if n > 0 && !slices.Contains(picked, n-1) {
			picked = append(picked, n-1)
		}
	}
	return picked, true
}

// Ask asks for a line.
func (p *Plain) Ask(ctx context.Context, q Question) (string, error) {
	p.head(q)
	prompt := ": "
	if q.Text != "" {
		prompt = fmt.Sprintf("Enter for %s: ", shown(q.Text))
	}
	for {
		line, err := p.read(ctx, prompt)
		if err != nil {
			return "", err
		}
		if line == "" {
			line = q.Text
		}
		if q.Check == nil {
			return line, nil
		}
		if err := q.Check(line); err != nil {
			fmt.Fprintln(p.out, shown(err.Error()))
			continue
		}
		return line, nil
	}
}

func (p *Plain) head(q Question) {
	q = q.shown()
	fmt.Fprintf(p.out, "\n%s\n", q.Title)
	if q.Help != "" {
		fmt.Fprintln(p.out, q.Help)
	}
	for i, option := range q.Options {
		fmt.Fprintf(p.out, "%d. %s\n", i+1, option)
	}
}

func (p *Plain) read(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(p.out, prompt)
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.out)
		return "", ErrLeft
	case line, ok := <-p.lines:
		if !ok {
			fmt.Fprintln(p.out)
			return "", ErrNobody
		}
		return strings.TrimSpace(line), nil
	}
}
