package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	assemblers    = 4         // at most; hashing is what takes the time
	assembleBatch = 256 << 10 // bytes, unless a chunk is larger: they are hashed and written while they are in the core's cache
)

// Assemble writes the state to a new file, which only its owner may read; one that is there is an error. Each chunk's
// hash is checked on the way. After an error there is no file.
func (r *Reader) Assemble(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("assembling a replica: %w", err)
	}
	if err = errors.Join(r.assemble(ctx, f), f.Close()); err != nil {
		return fmt.Errorf("assembling a replica: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

func (r *Reader) assemble(ctx context.Context, f *os.File) error {
	if err := f.Truncate(r.manifest.Size); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := &batches{spots: r.spots}
	var damaged atomic.Bool
	var group sync.WaitGroup
	for range min(assemblers, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			switch err := r.part(ctx, f, work); {
			case errors.Is(err, ErrDamaged):
				damaged.Store(true)
			case err != nil:
				cancel(err)
			}
		})
	}
	group.Wait()
	if damaged.Load() {
		return ErrDamaged
	}
	return context.Cause(ctx)
}

// part assembles batches until there are no more. Once a chunk is found damaged the others are only looked at: what else is
// bad must not become part of the next state.
func (r *Reader) part(ctx context.Context, f *os.File, work *batches) error {
	var buf []byte
	var damage error
	for {
		spots, at, size := work.next()
		if len(spots) == 0 || ctx.Err() != nil {
			return cmp.Or(damage, ctx.Err())
		}
		if cap(buf) < size {
			buf = make([]byte, max(size, assembleBatch))
		}
		done := 0
		for _, c := range spots {
			_, err := r.s.read(c, buf[done:])
			switch {
			case errors.Is(err, ErrDamaged):
				damage = err
			case err != nil:
				return err
			}
			done += int(c.Size)
		}
		if damage != nil {
			continue
		}
		if _, err := f.WriteAt(buf[:done], at); err != nil {
			return err
		}
	}
}

// batches hands the chunks of a state out in their order.
type batches struct {
	mu    sync.Mutex
	spots []spot
	at    int64
}

func (b *batches) next() (spots []spot, at int64, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.spots) && (n == 0 || size+int(b.spots[n].Size) <= assembleBatch) {
		size += int(b.spots[n].Size)
		n++
	}
	spots, at = b.spots[:n], b.at
	b.spots, b.at = b.spots[n:], b.at+int64(size)
	return spots, at, size
}
