package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
)

// meshBars shows how far a roll-out is: on a terminal a bar for each node, drawn over and over; elsewhere a line for each news.
type meshBars struct {
	cli   *cli
	out   io.Writer                  // of the terminal; nil = there is none
	last  []string                   // lines that are on it
	size  func() (width, height int) // of that
	drawn int                        // lines that are to be drawn over
	said  map[string]string          // by node
	full  map[string]int             // of each bar
}

func newMeshBars(c *cli) *meshBars {
	b := &meshBars{cli: c, out: newLine(c).out, said: map[string]string{}, full: map[string]int{}}
	b.size = func() (int, int) {
		if file, ok := b.out.(*os.File); ok {
			if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
				return width, height
			}
		}
		return 80, 24
	}
	return b
}

func (b *meshBars) at(r status.Rollout) {
	if b.out != nil {
		b.last = b.lines(r)
		b.draw(b.last)
		return
	}
	delete(b.said, silence)
	for _, m := range r.Members {
		text := meshWord(m)
		if b.said[m.Name] == text || m.State == "waiting" || m.State == "offline" {
			continue
		}
		b.said[m.Name] = text
		b.cli.note("%s: %s", printable(m.Name), printable(text))
	}
	idle := r.Stage == "running" && len(r.Members) > 0 && !slices.ContainsFunc(r.Members, func(m status.RolloutMember) bool { return m.State == "updating" })
	if why := r.Why; (r.StoppedBy != "" || idle) && why != "" && b.said[""] != why { // no node has that name
		b.said[""] = why
		b.cli.note("%s", printable(why))
	}
}

// silence is where it stands that nothing is heard; no node has that name.
const silence = "\x00"

// silent tells that what is shown is what was last heard.
func (b *meshBars) silent() {
	const text = "this machine's node does not answer at this moment, as while it starts anew: it is waited for"
	switch {
	case b.out != nil:
		b.draw(append(slices.Clone(b.last), text))
	case b.said[silence] == "":
		b.said[silence] = text
		b.cli.note("%s", text)
	}
}

// draw puts lines in place of those before. Each fits into one row of the screen: else it would be lost count of.
func (b *meshBars) draw(lines []string) {
	width, _ := b.size()
	var text strings.Builder
	if b.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.drawn)
	}
	text.WriteString("\r\x1b[J")
	for _, l := range lines {
		l = printable(l)
		if n := utf8.RuneCountInString(l); n >= width {
			l = string([]rune(l)[:max(0, width-2)]) + "…"
		}
		text.WriteString(l + "\n")
	}
	b.drawn = len(lines)
	_, _ = io.WriteString(b.out, text.String())
}

// clear takes the bars away.
func (b *meshBars) clear() {
	if b.out != nil {
		b.draw(nil)
	}
}

// lines are a head and as many nodes as the screen has room for, those first of which there is news.
func (b *meshBars) lines(r status.Rollout) []string {
	_, height := b.size()
	room := max(3, height-4)
	all, names, done := slices.Clone(r.Members), 0, 0
	for _, m := range all {
		names = max(names, utf8.RuneCountInString(m.Name))
		if m.State == "done" {
			done++
		}
	}
	if len(all) == 0 {
		return []string{r.Why}
	}
	head := fmt.Sprintf("%s, led by %s: %d of %s", r.Version, r.Lead, done, count(len(all), "node"))
	if !r.Led {
		head = fmt.Sprintf("%s, led by %s, which is not there: %d of %s", r.Version, r.Lead, done, count(len(all), "node"))
	}
	if r.Why != "" {
		head += "; " + r.Why
	}
	lines := []string{head}
	more := 0
	if len(all) > room {
		slices.SortStableFunc(all, func(x, y status.RolloutMember) int { return urgency(x) - urgency(y) })
		all, more = all[:room], len(all)-room
	}
	for _, m := range all {
		lines = append(lines, fmt.Sprintf("%-*s  %s %s", names, printable(m.Name), b.share(m), meshWord(m)))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// urgency puts those first who are looked for.
func urgency(m status.RolloutMember) int {
	return slices.Index([]string{"updating", "left", "waiting", "done", "offline"}, m.State)
}

// meshWord says how far a node is.
func meshWord(m status.RolloutMember) string {
	switch {
	case m.State == "updating" && m.Act != "":
		return m.Act + meshBytes(m)
	case m.State == "left":
		return "stays as it is: " + m.Why
	}
	return m.State
}

// meshBytes is what has come of what is fetched, where that is known.
func meshBytes(m status.RolloutMember) string {
	if m.Size <= 0 {
		return ""
	}
	return fmt.Sprintf(" %s of %s", modelcopy.Bytes(m.Done), modelcopy.Bytes(m.Size))
}

// share is a bar of a node's turn. Fetching is the part of it that is counted; what comes after, to the end of the trial,
// stands for the other half. While it is not known what the node does, as when it starts anew, it stays as it was.
func (b *meshBars) share(m status.RolloutMember) string {
	const width = 20
	full := 0
	switch {
	case m.State == "done":
		full = width
	case m.State == "left" || m.State == "offline":
		return "[" + strings.Repeat(" ", width) + "]"
	case m.State != "updating" || m.Act == "beginning":
	case m.Act == "":
		full = b.full[m.Name]
	case m.Act == "fetching" && m.Size > 0:
		full = min(width/2, max(0, int(width/2*(m.Done/1024)/max(1, m.Size/1024))))
	case m.Act == "fetching" || strings.HasPrefix(m.Act, "waiting"):
	case m.Act == "moving conversations":
		full = width * 6 / 10
	case m.Act == "restarting":
		full = width * 7 / 10
	default: // on trial
		full = width * 9 / 10
	}
	b.full[m.Name] = full
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}
