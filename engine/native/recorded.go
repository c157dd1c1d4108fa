package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"viiwork/engine"
)

// Recorded lists the recorded processes that still run, as Find does, and removes nothing.
func (r *Runner) Recorded(ctx context.Context) ([]engine.Process, error) {
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing engine records: %w", err)
	}
	var found []engine.Process
	for _, path := range paths {
		rec, err := readRecord(path)
		alive := false
		if err == nil {
			alive, err = rec.lives()
		}
		switch {
		case errors.Is(err, errBadRecord): // of no process of ours
		case err != nil:
			return nil, fmt.Errorf("reading engine record %s: %w", filepath.Base(path), err)
		case alive:
			found = append(found, r.process(rec))
		}
	}
	return found, ctx.Err()
}
