package llama

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"viiwork/engine"
)

// Bounds on what a program may print at us. Today's help has 60 kB and 400 flags.
const (
	maxHelp  = 1 << 20
	maxFlags = 4096
)

// helpColumn is where llama-server's help starts its descriptions; a line whose flags reach it has none.
const helpColumn = 40

var (
	versionNew = regexp.MustCompile(`(?m)^version: ([0-9A-Za-z][0-9A-Za-z.+~-]{0,39}) \(build ([0-9]{1,9})[,)]`)
	versionOld = regexp.MustCompile(`(?m)^version: ([0-9]{1,9}) \(([0-9A-Za-z]{1,40})\)`)
	flagName   = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9._-]{0,63}`)
	twoWords   = regexp.MustCompile(`^[A-Z_]+ [A-Z_]+$`)
)

// Build reads what llama-server printed for --version and --help. A program whose help has neither --model nor --port
// is some other one, and an error.
func (d *Dialect) Build(version, help string) (engine.Build, error) {
	b := engine.Build{Flags: map[string]bool{}, Values: map[string]int{}}
	b.Version, b.Number = readVersion(version)
	if len(help) > maxHelp {
		return engine.Build{}, fmt.Errorf("reading the engine's help: it has %d bytes, more than any llama-server's: check binary or image", len(help))
	}
	for _, e := range helpEntries(help) {
		addEntry(&b, e)
	}
	if !b.Flags["--model"] || !b.Flags["--port"] {
		return engine.Build{}, errors.New("reading the engine's help: it names no --model and --port, so this is not llama-server: check binary or image")
	}
	return b, nil
}

// readVersion knows "version: 0.7.0 (build 11669, commit Debian)" and the older "version: 5432 (abc1234)". Other
// texts give a version to show and no number.
func readVersion(text string) (string, int) {
	text = text[:min(len(text), maxHelp)]
	if m := versionNew.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("%s (build %d)", m[1], n), n
	}
	if m := versionOld.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return fmt.Sprintf("%d (%s)", n, m[2]), n
	}
	if _, rest, ok := strings.Cut(text, "version: "); ok {
		line, _, _ := strings.Cut(rest, "\n")
		if line = printable(line, 64); line != "" {
			return line, 0
		}
	}
	return "of unknown version", 0
}

// helpEntries cuts the help into one text per option: the line that names it and the lines of its description.
func helpEntries(help string) []string {
	var entries []string
	for line := range strings.Lines(help) {
		bare := strings.TrimLeft(line, " ")
		switch {
		case len(line)-len(bare) <= 4 && flagName.MatchString(bare):
			entries = append(entries, bare)
		case len(entries) > 0 && len(bare) < len(line):
			entries[len(entries)-1] += line
		}
	}
	return entries
}

// addEntry reads "-b,    --batch-size N   description". Flags that a build only lists to say that they are gone are
// not known to it: giving one ends the server.
func addEntry(b *engine.Build, entry string) {
	if strings.Contains(entry, "argument has been removed") {
		return
	}
	line, _, _ := strings.Cut(entry, "\n")
	names, rest := cutNames(line)
	values := countValues(line, rest)
	for _, n := range names {
		if len(b.Flags) >= maxFlags {
			return
		}
		b.Flags[n] = true
		if values > 0 {
			b.Values[n] = values
		}
	}
}

// cutNames takes the comma-separated flags off the front of a line.
func cutNames(line string) (names []string, rest string) {
	for {
		n := flagName.FindString(line)
		if n == "" {
			return names, line
		}
		names = append(names, n)
		line = line[len(n):]
		after, found := strings.CutPrefix(line, ",")
		if !found {
			return names, line
		}
		line = strings.TrimLeft(after, " ")
	}
}

// countValues tells how many values follow the flags of a line: a placeholder stands one space after the names, the
// description two or more, or in its own column.
func countValues(line, rest string) int {
	hint := strings.TrimPrefix(rest, " ")
	if hint == rest || hint == "" || hint[0] == ' ' || len(line)-len(hint) == helpColumn {
		return 0
	}
	hint, _, _ = strings.Cut(hint, "  ")
	if twoWords.MatchString(strings.TrimSpace(hint)) {
		return 2
	}
	return 1
}

// printable keeps the first limit runes of text that a terminal shows as they are, on one line.
func printable(text string, limit int) string {
	var kept strings.Builder
	for _, r := range strings.TrimSpace(text) {
		if limit--; limit < 0 {
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		kept.WriteRune(r)
	}
	return strings.TrimSpace(kept.String())
}
