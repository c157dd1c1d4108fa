package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	lookEvery = 200 * time.Millisecond // between two looks at a log or a process that tells nothing by itself
	trimEvery = 30 * time.Second       // between two looks at a log's size
	logLimit  = 50 << 20               // bytes; a longer log is cut while the engine runs
	logKept   = 1 << 20                // bytes of its end that are put aside then
	tailLimit = 8 << 20                // bytes searched for the last lines
)

// openLog puts the log of the run before aside and begins a new one. Appending is what lets trimLog cut the file under
// a running engine: each write goes to the end there is.
func openLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("putting the last log aside: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the engine's log: %w", err)
	}
	return f, nil
}

// trimLog empties a log over logLimit and keeps its end in the file of the run before. Lines written in the moment
// between are lost.
func trimLog(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() <= logLimit {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	kept, err := io.ReadAll(io.NewSectionReader(f, info.Size()-logKept, logKept))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".1", kept, 0o600); err != nil {
		return err
	}
	return f.Truncate(0)
}

// logView says what to copy of a log.
type logView struct {
	path string
	tail int         // last lines; negative = all
	over func() bool // nothing more will be written
}

// copyLog copies until the log is over and read to its end, or ctx has ended.
func copyLog(ctx context.Context, w io.Writer, v logView) error {
	f, err := os.Open(v.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := seekTail(f, v.tail); err != nil {
		return err
	}
	for ctx.Err() == nil {
		over := v.over() // asked before the read: what was written until then is read below
		if _, err := io.Copy(w, f); err != nil {
			return err
		}
		if over {
			return nil
		}
		sleep(ctx, lookEvery)
		if err := seekIfCut(f); err != nil {
			return err
		}
	}
	return nil
}

// seekTail moves to the start of the last n lines, or as far back as tailLimit allows.
func seekTail(f *os.File, n int) error {
	if n < 0 {
		return nil
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	start := max(0, end-tailLimit)
	text, err := io.ReadAll(io.NewSectionReader(f, start, end-start))
	if err != nil {
		return err
	}
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at-- // the last line's own end
	}
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	_, err = f.Seek(start+int64(at)+1, io.SeekStart)
	return err
}

func seekIfCut(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil && info.Size() < at {
		_, err = f.Seek(0, io.SeekStart)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
