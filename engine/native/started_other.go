//go:build !linux

package native

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// startTime identifies the process that has this number now by the moment it started, to the second, as ps prints it.
// over says that it has ended and only waits to be reaped; errGone that there is none.
func startTime(pid int) (started string, over bool, err error) {
	cmd := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC") // one notation, whoever asks
	text, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 && len(text) == 0 {
		return "", false, errGone
	}
	if err != nil {
		return "", false, fmt.Errorf("asking ps for process %d: %w", pid, err)
	}
	state, started, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if started = strings.TrimSpace(started); started == "" {
		return "", false, errors.New("ps does not tell when it started")
	}
	return started, strings.HasPrefix(state, "Z"), nil
}
