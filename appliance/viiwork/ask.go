package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// ask puts a question to the person at the terminal. With --yes it is answered; without a terminal nobody can answer it,
// which is a wrong use: other says what to give instead.
func (c *cli) ask(question, other string) (bool, error) {
	if c.yes {
		return true, nil
	}
	if !isTerminal(c.In) {
		return false, usageError("this needs an answer and there is no terminal: %s", other)
	}
	fmt.Fprintf(c.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil {
		return false, nil // the terminal has gone: nobody said yes
	}
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "y" || word == "yes", nil
}

// isTerminal reports whether a person may be reading along, or typing. /dev/null, which is a device as well, is nobody.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// errUnwanted ends a verb whose question was answered with no.
var errUnwanted = coded{exitRefused, errors.New("not wanted: nothing was changed")}
