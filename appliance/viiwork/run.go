package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"viiwork/appliance/config"
	"viiwork/serf"
)

// Streams is all that the command touches of the process it runs in.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // as os.Environ gives it
}

// Exit codes, the same for every verb.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2 // wrong use: an unknown flag or verb, a missing argument
	exitNotRunning = 3 // the verb needs a running node and none answers
	exitRefused    = 4 // by policy, or the user said no
)

// cli is one invocation: the streams, and what the global flags say.
type cli struct {
	Streams
	configPath string
	quiet, yes bool
}

// Run executes one command line and returns the exit code. Results go to s.Out, everything else to s.Err.
func Run(ctx context.Context, args []string, s Streams) int {
	c := &cli{Streams: s}
	root := c.rootCommand()
	if args == nil {
		args = []string{} // nil would make cobra read os.Args
	}
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	what := strings.TrimPrefix(strings.TrimPrefix(ran.CommandPath(), "viiwork"), " ")
	c.complain(what, err)
	return exitCode(err)
}

// complain prints err to the error stream: "viiwork: status: no node answers at …". Faults of a configuration file
// come first, one a line, in the form editors jump to.
func (c *cli) complain(what string, err error) {
	if errors.Is(err, errSaid) {
		return
	}
	message := err.Error()
	var faults config.Faults
	if errors.As(err, &faults) {
		fmt.Fprint(c.Err, printableLines(faults.Error()))
		where := "the configuration"
		if what == "init" {
			where = "the answers"
		}
		message = fmt.Sprintf("%s in %s: mend %s and try again", count(len(faults), "fault"), where, itOrThem(len(faults)))
	}
	if what != "" {
		what += ": "
	}
	fmt.Fprint(c.Err, printableLines("viiwork: "+what+message)) // it may repeat what a stranger said
}

// errSaid ends a verb with exit code 1 whose own output has said all there is to say.
var errSaid = errors.New("said")

// coded is an error with an exit code of its own.
type coded struct {
	code int
	error
}

func (c coded) Unwrap() error { return c.error }

// usageError is a wrong use of the command line: exit 2.
func usageError(format string, args ...any) error {
	return coded{exitUsage, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	var c coded
	switch {
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, config.ErrMeshMode), errors.Is(err, serf.ErrNameTaken), errors.Is(err, serf.ErrIDTaken):
		return exitRefused
	}
	return exitFailed
}

// getenv looks key up in the invocation's own environment; the last entry wins, as it does for a process.
func (c *cli) getenv(key string) string {
	for i := len(c.Environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(c.Environ[i], key+"="); ok {
			return value
		}
	}
	return ""
}

// note tells the person at the terminal something that is no result; --quiet drops it.
func (c *cli) note(format string, args ...any) {
	if !c.quiet {
		fmt.Fprintf(c.Err, format+"\n", args...)
	}
}

// bold reports whether output may carry terminal emphasis: a terminal, and nobody asked for none.
func (c *cli) bold() bool {
	return c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb" && isTerminal(c.Out)
}

// print writes what was drawn in full, so that a reader never sees half a table.
func (c *cli) print(drawn *bytes.Buffer) error {
	if _, err := c.Out.Write(drawn.Bytes()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// count words a number of things: "1 fault", "3 faults".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func itOrThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
