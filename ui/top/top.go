package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
)

// ErrGone is what Config.Get wraps where no node answers.
var ErrGone = errors.New("no node answers")

// DefaultInterval is how often the node is asked.
const DefaultInterval = time.Second

// Config is what top shows, where it gets it, and where to.
type Config struct {
	Mesh     bool          // begin with all machines rather than with this one
	Once     bool          // print one picture and end
	Interval time.Duration // 0 = DefaultInterval

	// Get reads one of the node's JSON documents, such as /v1/status, into a value.
	Get func(ctx context.Context, path string, into any) error
	// Logs follows what the engines of one of the node's models write.
	Logs func(ctx context.Context, model string) (io.ReadCloser, error)

	In      io.Reader
	Out     io.Writer
	Environ []string         // TERM, NO_COLOR and the language are read from it
	Now     func() time.Time // nil = time.Now
}

// Run shows the node until the user has enough or ctx ends. It is an error if the node does not answer at first; one that
// goes away later is waited for.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p, err := cfg.read(ctx, cfg.Mesh)
	if err != nil {
		return err
	}
	switch {
	case cfg.Once:
		return cfg.print(p)
	case cfg.getenv("TERM") != "dumb" && terminal(cfg.In) && terminal(cfg.Out):
		return cfg.show(ctx, p)
	}
	return cfg.tell(ctx, p)
}

// terminal reports whether a person sits at the other end.
func terminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(file.Fd())
}

func (cfg Config) print(p picture) error {
	if _, err := io.WriteString(cfg.Out, cfg.plain(p)); err != nil {
		return fmt.Errorf("printing the picture: %w", err)
	}
	return nil
}

// tell prints pictures one after the other, for who keeps them in a file. That the node has gone is said once.
func (cfg Config) tell(ctx context.Context, p picture) error {
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	gone := false
	for {
		if !gone {
			if err := cfg.print(p); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next, err := cfg.read(ctx, cfg.Mesh)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			p, gone = next, false
		case !gone:
			gone = true
			if _, err := fmt.Fprintf(cfg.Out, "%s %s\n\n", cfg.Now().Format(time.TimeOnly), lostWord(err)); err != nil {
				return fmt.Errorf("printing the picture: %w", err)
			}
		}
	}
}

// lostWord says that the node cannot be read now.
func lostWord(err error) string {
	if errors.Is(err, ErrGone) {
		return "the node does not answer: trying again"
	}
	return clean(err.Error()) + ": trying again"
}

// getenv looks a variable up; the last one counts, as it does for a process.
func (cfg Config) getenv(key string) (value string) {
	for _, entry := range cfg.Environ {
		if v, ok := strings.CutPrefix(entry, key+"="); ok {
			value = v
		}
	}
	return value
}

// unicode reports whether the terminal shows more than ASCII.
func (cfg Config) unicode() bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(cfg.getenv(key)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return cfg.getenv("TERM") != "linux"
}
