package modelcopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"
)

// maxSums bounds the sums that are remembered and those that are to be made.
const maxSums = 4 * maxFiles

var errNotMade = errors.New("the file was not read to its end")

// sums is the SHA-256 of files, each made once for as long as the file is the same. One is made at a time.
type sums struct {
	busy func() bool
	jobs chan job

	mu   sync.Mutex // guards what follows
	made map[job]made
}

type job struct{ dir, path, tag string }

// made is a sum, "" while it is being made, or why there is none.
type made struct {
	text string
	err  error
}

func newSums(busy func() bool) sums {
	return sums{busy: busy, jobs: make(chan job, maxSums), made: map[job]made{}}
}

// of is a file's sum, "" as long as it is not known.
func (s *sums) of(dir, path, tag string) (string, error) {
	j := job{dir, path, tag}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.made[j]
	if known {
		if m.err != nil {
			delete(s.made, j) // who asks again may have mended it
		}
		return m.text, m.err
	}
	if len(s.made) >= maxSums {
		for old, m := range s.made {
			if m.text != "" || m.err != nil {
				delete(s.made, old)
			}
		}
	}
	select {
	case s.jobs <- j:
		s.made[j] = made{}
	default: // asked for again later
	}
	return "", nil
}

func (s *sums) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-s.jobs:
			text, err := s.make(ctx, j)
			s.mu.Lock()
			s.made[j] = made{text, err}
			s.mu.Unlock()
		}
	}
}

func (s *sums) make(ctx context.Context, j job) (string, error) {
	f, info, err := openBelow(j.dir, j.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if tagOf(info) != j.tag {
		return "", errNotMade
	}
	sum, buf := sha256.New(), make([]byte, 1<<20)
	for {
		if ctx.Err() != nil {
			return "", errNotMade
		}
		began := time.Now()
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		rest(ctx, s.busy, time.Since(began))
	}
	if info, err = f.Stat(); err != nil || tagOf(info) != j.tag {
		return "", errNotMade
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
