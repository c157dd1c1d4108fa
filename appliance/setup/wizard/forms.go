package wizard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"golang.org/x/term"
)

// Forms asks on a terminal, with arrow keys.
type Forms struct {
	In    io.Reader
	Out   io.Writer
	Plain bool // no colours
}

// Tell shows lines to read.
func (f *Forms) Tell(text string) { fmt.Fprintln(f.Out, strings.TrimRight(shown(text), "\n")) }

// optionsShown bounds a list on the screen; the rest scrolls.
const optionsShown = 12

// Choose asks for one option.
func (f *Forms) Choose(ctx context.Context, q Question) (int, error) {
	q = q.shown()
	at := q.At
	field := huh.NewSelect[int]().Title(q.Title).Description(q.Help).Options(f.options(q)...).Value(&at).Height(f.height(q))
	err := f.run(ctx, field, func() string { return answered(q, q.Options[at]) })
	return at, err
}

// Pick asks for any number of options.
func (f *Forms) Pick(ctx context.Context, q Question) ([]int, error) {
	q = q.shown()
	picked := slices.Clone(q.Picked)
	q.Help = strings.TrimSpace(q.Help + " Space or x marks, Enter goes on.")
	field := huh.NewMultiSelect[int]().Title(q.Title).Description(q.Help).Options(f.options(q)...).Value(&picked).Height(f.height(q)).Filterable(len(q.Options) > optionsShown)
	err := f.run(ctx, field, func() string {
		words := make([]string, len(picked))
		for i, n := range picked {
			words[i] = q.Options[n]
		}
		if len(words) == 0 {
			words = []string{"none"}
		}
		return answered(q, words...)
	})
	return picked, err
}

// Ask asks for a line.
func (f *Forms) Ask(ctx context.Context, q Question) (string, error) {
	q = q.shown()
	text := q.Text
	field := huh.NewInput().Title(q.Title).Description(q.Help).Value(&text)
	if q.Check != nil {
		field = field.Validate(func(s string) error { return q.Check(strings.TrimSpace(s)) })
	}
	err := f.run(ctx, field, func() string {
		if q.Secret {
			return answered(q, "given")
		}
		return answered(q, shown(strings.TrimSpace(text)))
	})
	return strings.TrimSpace(text), err
}

func (f *Forms) options(q Question) []huh.Option[int] {
	options := make([]huh.Option[int], len(q.Options))
	for i, text := range q.Options {
		options[i] = huh.NewOption(text, i)
	}
	return options
}

// height is how many lines a list of options takes with its question. Left to itself, the form of a list that several may
// be picked from has room for none where the question takes more than a line.
func (f *Forms) height(q Question) int {
	width := f.width()
	height := linesOf(q.Title, width)
	if q.Help != "" {
		height += linesOf(q.Help, width)
	}
	options := 0
	for _, text := range q.Options {
		options += linesOf(text, width-len("> [x] "))
	}
	return height + min(options, optionsShown)
}

// width is what a form has of the screen beside its bar.
func (f *Forms) width() int {
	const bar, usual = 2, 80
	if file, ok := f.Out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width - bar
		}
	}
	return usual - bar
}

// linesOf is how many lines a text takes, broken between words.
func linesOf(text string, width int) int {
	lines, used := 1, 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if used > 0 && used+1+n > width {
			lines, used = lines+1, 0
		}
		if used > 0 {
			used++
		}
		used += n
		for width > 0 && used > width {
			lines, used = lines+1, used-width
		}
	}
	return lines
}

// answered is what stays on the screen of a question.
func answered(q Question, answers ...string) string {
	lines := []string{q.Title}
	for _, answer := range answers {
		lines = append(lines, "  "+strings.TrimSpace(answer))
	}
	return strings.Join(lines, "\n")
}

// page is a form that is wiped off when it is done. Its last picture is as high as the one before: the library's own is
// empty, and of a picture that shrinks the upper lines may stay on the screen.
type page struct {
	form   *huh.Form
	height int // in lines, of the picture
}

func (p *page) Init() tea.Cmd { return p.form.Init() }

func (p *page) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := p.form.Update(msg) // it changes itself
	return p, cmd
}

func (p *page) View() tea.View {
	if p.form.State != huh.StateNormal {
		return tea.NewView(strings.Repeat("\n", max(p.height-1, 1)))
	}
	text := p.form.View()
	p.height = 1 + strings.Count(text, "\n")
	return tea.NewView(text)
}

// back goes up to where the picture began.
func (p *page) back() string { return fmt.Sprintf("\r\x1b[%dA\x1b[J", max(p.height-1, 1)) }

// run shows the form until it is answered; said is then asked what stays of it.
func (f *Forms) run(ctx context.Context, field huh.Field, said func() string) error {
	keys := huh.NewDefaultKeyMap()
	keys.Select.Filter.SetEnabled(false) // such lists are short, and a stray / would hide them
	form := huh.NewForm(huh.NewGroup(field)).WithKeyMap(keys)
	form.SubmitCmd, form.CancelCmd = tea.Quit, tea.Interrupt
	if f.Plain {
		form = form.WithTheme(huh.ThemeFunc(huh.ThemeBase))
	}
	shown := &page{form: form}
	_, err := tea.NewProgram(shown, tea.WithContext(ctx), tea.WithInput(f.In), tea.WithOutput(f.Out)).Run()
	switch {
	case err == nil:
		fmt.Fprintln(f.Out, shown.back()+said())
		return nil
	case errors.Is(err, tea.ErrInterrupted):
		fmt.Fprint(f.Out, shown.back())
		return ErrLeft
	case ctx.Err() != nil:
		return ErrLeft
	}
	return fmt.Errorf("asking on this terminal: %w: try --accessible", err)
}
