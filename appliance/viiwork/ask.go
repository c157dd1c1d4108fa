package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// ask puts a question to the person at the terminal. With --yes it is answered; without a terminal nobody can answer it,
// which is a wrong use: other says what to give instead. The end of ctx is a no.
func (c *cli) ask(ctx context.Context, question, other string) (bool, error) {
	if c.yes {
		return true, nil
	}
	if !isTerminal(c.In) {
		return false, usageError("this needs an answer and there is no terminal: %s", other)
	}
	fmt.Fprintf(c.Err, "%s [y/N] ", question)
	said, in := make(chan string, 1), bufio.NewReader(c.In)
	go func() { // until the end of the program, where the question is left
		line, err := in.ReadString('\n')
		if err != nil {
			line = "" // the terminal has gone: nobody said yes
		}
		said <- line
	}()
	select {
	case <-ctx.Done(): // Ctrl-C
		fmt.Fprintln(c.Err)
		return false, nil
	case line := <-said:
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes", nil
	}
}

// isTerminal reports whether a person may be reading along, or typing. /dev/null, which is a device as well, is nobody.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// errUnwanted ends a verb whose question was answered with no.
var errUnwanted = coded{exitRefused, errors.New("not wanted: nothing was changed")}
