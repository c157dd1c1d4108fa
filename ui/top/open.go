package top

import (
	"context"
	"fmt"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"viiwork/appliance/status"
)

// opened is what fills the screen instead of the panels: a row with all there is to say of it, or a log.
type opened struct {
	title string
	kind  kind
	key   string
	view  viewport.Model

	request *status.Request // the last word about the opened one, nil = none yet
	log     *tail           // nil = it is none
}

type requestMsg struct {
	request status.Request
	err     error
}

// open shows the chosen row.
func (s *screen) open() tea.Cmd {
	r, ok := s.pane().chosen()
	if !ok {
		return nil
	}
	s.opened = &opened{kind: s.pane().table.kind, key: r.key, view: viewport.New()}
	s.refit()
	s.reopen()
	return s.readOpened()
}

// refit gives what is opened the size of the screen.
func (s *screen) refit() {
	s.help.SetWidth(s.wide)
	s.ask.SetWidth(max(8, s.wide-width(s.ask.Prompt)-1))
	if s.opened != nil {
		s.opened.view.SetWidth(s.wide)
		s.opened.view.SetHeight(max(1, s.high-len(s.header())-2))
	}
}

// reopen says it anew, by the newest picture.
func (s *screen) reopen() {
	o := s.opened
	if o == nil || o.log != nil {
		return
	}
	s.refit()
	o.title = clean(o.kind.String() + " " + o.key)
	var lines []string
	if o.kind == requestKind {
		lines = s.aboutRequest(o)
	} else {
		lines = s.about(o)
	}
	for i := range lines {
		lines[i] = fit(clean(lines[i]), s.wide, false)
	}
	o.view.SetContentLines(lines)
}

// readOpened asks the node for more about an opened request.
func (s *screen) readOpened() tea.Cmd {
	if s.opened == nil || s.opened.kind != requestKind || s.opened.log != nil {
		return nil
	}
	id := s.opened.key
	return s.jobs.do(func(ctx context.Context) tea.Msg {
		r, err := s.cfg.readRequest(ctx, id)
		return requestMsg{r, err}
	})
}

// shown takes it over. A request that the node has forgotten stays as it was.
func (s *screen) shown(msg requestMsg) {
	if s.opened != nil && msg.err == nil && s.opened.key == msg.request.ID {
		s.opened.request = &msg.request
		s.reopen()
	}
}

// within acts on a key while something is opened.
func (s *screen) within(k tea.KeyPressMsg) (cmd tea.Cmd) {
	o := s.opened
	switch {
	case key.Matches(k, s.keys.back):
		o.log.close()
		s.opened = nil
	case key.Matches(k, s.keys.first):
		o.view.GotoTop()
	case key.Matches(k, s.keys.last):
		o.view.GotoBottom()
	default:
		o.view, cmd = o.view.Update(k)
	}
	return cmd
}

func (k kind) String() string {
	return [...]string{machineKind: "machine", modelKind: "model", backendKind: "backend", cardKind: "card", requestKind: "request"}[k]
}

// about is all there is to say of a row: its columns, none left out or cut, and what has no column.
func (s *screen) about(o *opened) (lines []string) {
	var found *row
	for _, t := range s.cfg.panels(s.picture, s.mesh) {
		for i := range t.rows {
			if t.kind == o.kind && t.rows[i].key == o.key {
				found = &t.rows[i]
				for j, c := range found.cells {
					lines = append(lines, fmt.Sprintf("%-12s %s", t.columns[j].title, c.text))
				}
			}
		}
	}
	if found == nil {
		return []string{"it is not there any more"}
	}
	switch p := s.picture; o.kind {
	case machineKind:
		lines = append(lines, p.aboutMachine(o.key)...)
	case modelKind:
		lines = append(lines, p.aboutModel(o.key)...)
	case backendKind:
		lines = append(lines, p.aboutBackend(o.key)...)
	}
	return lines
}
