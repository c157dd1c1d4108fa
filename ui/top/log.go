package top

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
)

const (
	// logLines is how many lines of a log are kept.
	logLines = 2000
	// logAtOnce is how many are taken over before the screen is drawn again.
	logAtOnce = 500
)

// tail is a log that is followed.
type tail struct {
	model string
	lines []string
	body  io.ReadCloser // nil = it is not open yet
	from  *bufio.Reader
	shut  bool
}

// logMsg is news of a log: it is open, it has said something, or it has ended.
type logMsg struct {
	of    *tail
	body  io.ReadCloser
	lines []string
	err   error
}

// close ends it. A tail that is still being opened is closed once it is.
func (t *tail) close() {
	if t == nil {
		return
	}
	t.shut = true
	if t.body != nil {
		t.body.Close()
	}
}

// openLog follows the log of the chosen row's engines.
func (s *screen) openLog() tea.Cmd {
	r, ok := s.pane().chosen()
	if !ok {
		return nil
	}
	t := &tail{model: r.model}
	s.opened = &opened{title: "log of " + clean(r.model), log: t, view: viewport.New()}
	s.refit()
	if r.model == "" {
		s.opened.title = "log"
		s.opened.view.SetContentLines([]string{"Only logs of this machine's engines can be read here: choose one of its backends or models."})
		return nil
	}
	return s.jobs.do(func(ctx context.Context) tea.Msg {
		body, err := s.cfg.Logs(ctx, t.model)
		return logMsg{of: t, body: body, err: err}
	})
}

// wrote takes news over and waits for more.
func (s *screen) wrote(msg logMsg) tea.Cmd {
	t := msg.of
	if msg.body != nil {
		t.body, t.from = msg.body, bufio.NewReaderSize(msg.body, 64<<10)
	}
	if t.shut {
		t.close()
		return nil
	}
	t.lines = append(t.lines, msg.lines...)
	if msg.err != nil {
		t.lines = append(t.lines, "", "The log has ended: "+clean(msg.err.Error())+". Leave it with esc and open it again.")
	}
	if n := len(t.lines) - logLines; n > 0 {
		t.lines = append([]string(nil), t.lines[n:]...)
	}
	if s.opened != nil && s.opened.log == t {
		follow := s.opened.view.AtBottom()
		s.opened.view.SetContentLines(t.lines)
		if follow {
			s.opened.view.GotoBottom()
		}
	}
	if msg.err != nil {
		return nil
	}
	return s.jobs.do(func(context.Context) tea.Msg {
		lines, err := t.read()
		return logMsg{of: t, lines: lines, err: err}
	})
}

// read waits for a line and takes what has come with it. Of an endless line pieces are lines.
func (t *tail) read() (lines []string, err error) {
	for len(lines) == 0 || t.from.Buffered() > 0 && len(lines) < logAtOnce {
		line, err := t.from.ReadSlice('\n')
		if len(line) > 0 {
			lines = append(lines, clean(strings.TrimRight(string(line), "\r\n")))
		}
		switch {
		case errors.Is(err, io.EOF):
			return lines, errors.New("the node went away, or has no more of it")
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return lines, err
		}
	}
	return lines, nil
}
