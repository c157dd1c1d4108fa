package main

import (
	"fmt"
	"strings"
	"time"

	"viiwork/appliance/modelcopy"
	"viiwork/update/install"
)

// fetchBar shows how far an installation is: a line over and over on a terminal, elsewhere a line for each act.
type fetchBar struct {
	line
	cli   *cli
	act   install.Act
	drawn time.Time
}

func newFetchBar(c *cli) *fetchBar { return &fetchBar{line: newLine(c), cli: c} }

// actWords are what an owner reads of an act.
var actWords = map[install.Act]string{
	install.Fetching: "fetching the program",
	install.Checking: "trying it: its version, and whether it takes the configuration",
	install.Looking:  "asking each model of the running node, to compare",
	install.Turning:  "turning the links",
}

func (b *fetchBar) at(p install.Progress) {
	news := p.Act != b.act
	b.act = p.Act
	switch {
	case b.out == nil && news:
		b.cli.note("%s", actWords[p.Act])
	case b.out != nil && (news || time.Since(b.drawn) >= pullDraw):
		b.drawn = time.Now()
		b.draw(fetchText(p))
	}
}

func fetchText(p install.Progress) string {
	text := actWords[p.Act]
	if p.Act != install.Fetching || p.Size <= 0 {
		return text
	}
	return fmt.Sprintf("%s %s of %s", barText(float64(p.Bytes)/float64(p.Size)), modelcopy.Bytes(p.Bytes), modelcopy.Bytes(p.Size))
}

// barText is a share as a bar.
func barText(share float64) string {
	const width = 24
	full := min(width, max(0, int(width*share)))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}

// trialBar shows how far a trial is, the same way.
type trialBar struct {
	line
	cli  *cli
	said string
}

func newTrialBar(c *cli) *trialBar { return &trialBar{line: newLine(c), cli: c} }

func (b *trialBar) at(t install.Trial) {
	text := trialText(t)
	if text == b.said {
		return
	}
	b.said = text
	if b.out != nil {
		b.draw(text)
		return
	}
	b.cli.note("%s", printable(text))
}

func trialText(t install.Trial) string {
	text := map[install.Stage]string{
		install.Switched:  "%s is installed; the old one finishes what runs",
		install.Started:   "%s answers; its models come back",
		install.Proving:   "%s is asked for an answer",
		install.Watching:  "%s is as good as the one before, and has to stay so for a while",
		install.Returning: "%s is taken back",
	}[t.Stage]
	if text == "" {
		text = "%s is on trial"
	}
	text = fmt.Sprintf(text, t.Version)
	for _, more := range []string{t.Detail, t.Failed} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}
