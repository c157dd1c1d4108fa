package install

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Bounds of what a program that was never run before may take and say.
const (
	sayPatience   = 30 * time.Second
	checkPatience = 2 * time.Minute // it looks at cards and reads the heads of model files
	maxSaid       = 64 << 10
)

// try runs a program that is to be installed: it must say that it is this version for this machine ("" = whatever it is),
// and take the node's configuration. A configuration that the running version refuses in the same words, say for a disk
// that is away, is no reason against the new one. The answer is what it says of itself, as its node will.
func (v *Versions) try(ctx context.Context, path, version string, o Order) (says string, err error) {
	out, err := ask(ctx, sayPatience, o.Environ, path, "version", "--json")
	if err != nil {
		return "", fmt.Errorf("asking it for its version: %w: ask the publisher", err)
	}
	var is struct {
		Version, OS, Arch string
	}
	if err := json.Unmarshal([]byte(out), &is); err != nil {
		return "", fmt.Errorf("asking it for its version: %w: ask the publisher", err)
	}
	if is.OS != runtime.GOOS || is.Arch != runtime.GOARCH || version != "" && is.Version != version {
		return "", fmt.Errorf("it says that it is %q for %q/%q, not %s for %s/%s: ask the publisher", is.Version, is.OS, is.Arch, cmp.Or(version, "a version"), runtime.GOOS, runtime.GOARCH)
	}
	if o.Config != "" {
		if err := v.validate(ctx, path, o); err != nil {
			return "", err
		}
	}
	v.done("checked")
	return is.Version, nil
}

func (v *Versions) validate(ctx context.Context, path string, o Order) error {
	said, err := ask(ctx, checkPatience, o.Environ, path, "config", "validate", o.Config)
	if err == nil {
		return nil
	}
	if is, currentErr := v.Current(); currentErr == nil {
		old, oldErr := ask(ctx, checkPatience, o.Environ, v.Program(is), "config", "validate", o.Config)
		if oldErr != nil && old == said && said != "" {
			return nil
		}
	}
	return fmt.Errorf("it refuses the configuration: %w: mend %s for it and update again, nothing was changed", err, o.Config)
}

// ask runs a program with its arguments for a short time and returns what it printed on both streams, with an error that repeats it.
func ask(ctx context.Context, patience time.Duration, environ []string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out string
	var err error
	for range 5 { // a file that another thread still holds for writing, in a child it is about to start, cannot be run yet
		said := &limited{}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.Env, cmd.WaitDelay = said, said, environ, time.Second
		err = cmd.Run()
		out = said.kept.String()
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return out, fmt.Errorf("it did not end within %v", patience)
	case out == "":
		return out, err
	}
	return out, fmt.Errorf("%w: %s", err, Clip(strings.Join(strings.Fields(out), " ")))
}

// limited keeps the beginning of what is written to it. The buffer is not embedded: it would be read into without limit.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxSaid - l.kept.Len(); room > 0 {
		l.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
