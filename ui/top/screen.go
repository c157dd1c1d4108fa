package top

import (
	"context"
	"errors"
	"fmt"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// frames is how often a second the terminal is written to at most: what changed, in one go.
const frames = 20

// screen is the state of the terminal. Its methods belong to bubbletea's loop.
type screen struct {
	cfg    Config
	jobs   *jobs
	keys   keyMap
	help   help.Model
	ask    textinput.Model // for the filter
	style  styles
	glyphs glyphs

	wide, high int
	picture    picture
	lost       string // why there is no newer one, "" = it is the newest
	lostAt     time.Time
	mesh       bool
	paused     bool
	helping    bool
	asking     bool

	panes  map[kind]*pane
	focus  int
	opened *opened // nil = the panels
}

type (
	tickMsg    struct{}
	pictureMsg struct {
		picture picture
		err     error
	}
)

// show runs the screen until the user leaves it.
func (cfg Config) show(ctx context.Context, p picture) error {
	ctx, cancel := context.WithCancel(ctx)
	s := newScreen(cfg, newJobs(ctx), p)
	defer s.jobs.wait()
	defer cancel()
	program := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(cfg.In), tea.WithOutput(cfg.Out),
		tea.WithEnvironment(cfg.Environ), tea.WithFPS(frames), tea.WithoutSignalHandler())
	if _, err := program.Run(); err != nil && !(errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil) {
		return fmt.Errorf("driving the terminal: %w", err)
	}
	return nil
}

func newScreen(cfg Config, j *jobs, p picture) *screen {
	s := &screen{cfg: cfg, jobs: j, keys: keys(), help: help.New(), ask: textinput.New(), style: newStyles(), glyphs: cfg.glyphs(), mesh: cfg.Mesh,
		panes: map[kind]*pane{}, wide: 80, high: 24}
	s.help.Styles = s.style.help()
	s.help.ShortSeparator = "  "
	s.ask.Prompt = "filter: "
	s.ask.CharLimit = 64
	s.take(p)
	return s
}

func (s *screen) Init() tea.Cmd { return s.tick() }

func (s *screen) tick() tea.Cmd {
	return tea.Tick(s.cfg.Interval, func(time.Time) tea.Msg { return tickMsg{} })
}

func (s *screen) read() tea.Cmd {
	mesh := s.mesh
	return s.jobs.do(func(ctx context.Context) tea.Msg {
		p, err := s.cfg.read(ctx, mesh)
		return pictureMsg{p, err}
	})
}

// Update is bubbletea's: one thing that has happened.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.wide, s.high = msg.Width, msg.Height
		s.refit()
	case tickMsg:
		if s.paused {
			return s, s.tick()
		}
		return s, tea.Batch(s.read(), s.readOpened())
	case pictureMsg:
		s.arrived(msg)
		return s, s.tick()
	case requestMsg:
		s.shown(msg)
	case logMsg:
		return s, s.wrote(msg)
	case tea.KeyPressMsg:
		return s, s.pressed(msg)
	default:
		if s.asking {
			var cmd tea.Cmd
			s.ask, cmd = s.ask.Update(msg)
			return s, cmd
		}
	}
	return s, nil
}

// arrived takes a picture over, or keeps the last one where there is none. The node may come back.
func (s *screen) arrived(msg pictureMsg) {
	switch {
	case msg.err == nil:
		s.lost = ""
		s.take(msg.picture)
	case s.lost == "":
		s.lost, s.lostAt = lostWord(msg.err), s.cfg.Now()
	default:
		s.lost = lostWord(msg.err)
	}
	s.refit() // the header has a line more, or less
}

func (s *screen) take(p picture) {
	s.picture = p
	s.arrange()
}

// arrange puts the picture into the panels.
func (s *screen) arrange() {
	for _, t := range s.cfg.panels(s.picture, s.mesh) {
		if s.panes[t.kind] == nil {
			s.panes[t.kind] = &pane{sort: -1}
		}
		s.panes[t.kind].set(t)
	}
	s.focus = min(s.focus, len(s.order())-1)
	s.reopen()
}

// order are the panels from top to bottom.
func (s *screen) order() []kind {
	if s.mesh {
		return []kind{machineKind, modelKind, cardKind, requestKind}
	}
	return []kind{backendKind, cardKind, requestKind}
}

func (s *screen) pane() *pane { return s.panes[s.order()[s.focus]] }

// pressed acts on a key.
func (s *screen) pressed(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case s.asking:
		return s.typed(k)
	case key.Matches(k, s.keys.quit):
		return tea.Quit
	case s.helping:
		s.helping = false
	case key.Matches(k, s.keys.help):
		s.helping = true
	case key.Matches(k, s.keys.pause):
		s.paused = !s.paused
	case s.opened != nil:
		return s.within(k)
	default:
		return s.among(k)
	}
	return nil
}

// among acts on a key while the panels are shown.
func (s *screen) among(k tea.KeyPressMsg) tea.Cmd {
	p, n := s.pane(), len(s.order())
	switch {
	case key.Matches(k, s.keys.next):
		s.focus = (s.focus + 1) % n
	case key.Matches(k, s.keys.prev):
		s.focus = (s.focus + n - 1) % n
	case key.Matches(k, s.keys.mesh):
		s.mesh, s.focus = !s.mesh, 0
		s.arrange()
	case key.Matches(k, s.keys.sort):
		p.turnTo()
		s.arrange()
	case key.Matches(k, s.keys.turn):
		p.down = !p.down
		p.toTop()
		s.arrange()
	case key.Matches(k, s.keys.filter):
		s.asking = true
		s.ask.SetValue(p.filter)
		s.ask.CursorEnd()
		return s.ask.Focus()
	case key.Matches(k, s.keys.back) && p.filter != "":
		p.filter = ""
		s.arrange()
	case key.Matches(k, s.keys.open):
		return s.open()
	case key.Matches(k, s.keys.log):
		return s.openLog()
	default:
		p.move(s.steps(k))
	}
	return nil
}

// steps is how many rows a key moves by.
func (s *screen) steps(k tea.KeyPressMsg) int {
	page, all := max(1, s.high/3), len(s.pane().table.rows)
	for _, step := range []struct {
		on key.Binding
		by int
	}{{s.keys.up, -1}, {s.keys.down, 1}, {s.keys.pageUp, -page}, {s.keys.pageDown, page}, {s.keys.first, -all}, {s.keys.last, all}} {
		if key.Matches(k, step.on) {
			return step.by
		}
	}
	return 0
}

// typed acts on a key while the filter is typed: it narrows the panel as it grows.
func (s *screen) typed(k tea.KeyPressMsg) (cmd tea.Cmd) {
	switch k.String() {
	case "enter":
		s.asking = false
		s.ask.Blur()
	case "esc":
		s.asking = false
		s.ask.Blur()
		s.ask.SetValue("")
	default:
		s.ask, cmd = s.ask.Update(k)
	}
	s.pane().filter = s.ask.Value()
	s.arrange()
	return cmd
}
