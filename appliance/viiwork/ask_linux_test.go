package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is one that a test types at; here is the program's end of it.
func terminal(t *testing.T) (keys, here *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs a terminal: ", err)
	}
	t.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	here, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	return keys, here
}

// TestCtrlCAtAQuestionIsANo at once: no key is waited for.
func TestCtrlCAtAQuestionIsANo(t *testing.T) {
	keys, here := terminal(t)
	c := &cli{Streams: Streams{In: here, Err: io.Discard}}
	ctx, interrupt := context.WithCancel(context.Background())
	interrupt()
	if yes, err := c.ask(ctx, "do it?", "give --yes"); yes || err != nil {
		t.Errorf("left at the question: %v, %v", yes, err)
	}
	fmt.Fprintln(keys, "whoever still reads has this line")
	for _, answer := range []string{"y", "n"} {
		keys, here := terminal(t)
		c.In = here
		fmt.Fprintln(keys, answer)
		if yes, err := c.ask(context.Background(), "do it?", "give --yes"); yes != (answer == "y") || err != nil {
			t.Errorf("%s is taken for %v, %v", answer, yes, err)
		}
	}
}
