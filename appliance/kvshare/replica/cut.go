package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/jc" // registers contentCut
)

// contentCut is the way content is cut. Another one cuts elsewhere, and nothing is shared with what was saved before.
const contentCut = "jc-v1.0.0"

// Chunks that are cut by content have a size that hangs on that of the whole: a turn should fill several, and no state
// should have too many.
const (
	leastContent  = 2 << 10   // bytes of a chunk on average
	mostContent   = 256 << 10 // the longest is 4 times that
	contentChunks = 50_000
)

// Sum is the SHA-256 of a chunk.
type Sum [sha256.Size]byte

// Chunk is a piece of a state.
type Chunk struct {
	Sum  Sum
	Size uint32 // bytes, MaxChunk at most
}

// Cut reads the state once, hands each chunk on in the order of the file, and gives the manifest of all. The bytes belong
// to Cut and are valid during the call only. What emit returns ends it.
func (s *State) Cut(ctx context.Context, key Key, emit func(Chunk, []byte) error) (Manifest, error) {
	m := Manifest{Key: key, Tokens: len(s.Tokens), Chain: Chain(s.Tokens), Layout: s.Layout, Size: s.size}
	c := &cutter{ctx: ctx, file: s.file, emit: emit, chunks: make([]Chunk, 0, s.Chunks()+s.Chunks()/8), buf: make([]byte, MaxChunk)}
	for _, span := range s.spans {
		if span.size == 0 {
			continue
		}
		cut := c.byRows
		if span.run == 0 {
			cut = c.byContent
		}
		if err := cut(span); err != nil {
			return Manifest{}, fmt.Errorf("cutting a state: %w", err)
		}
		c.at += span.size
	}
	m.Chunks = c.chunks
	return m, nil
}

type cutter struct {
	ctx    context.Context // of the one call of Cut
	file   io.ReaderAt
	at     int64 // where the span begins
	emit   func(Chunk, []byte) error
	chunks []Chunk
	buf    []byte
}

func (c *cutter) add(b []byte) error {
	if len(c.chunks) == MaxChunks {
		return fmt.Errorf("more than %d chunks: %w", MaxChunks, ErrTooLarge)
	}
	chunk := Chunk{sha256.Sum256(b), uint32(len(b))}
	c.chunks = append(c.chunks, chunk)
	return c.emit(chunk, b)
}

// readAhead is how many bytes are read at a time: they are hashed while they are in the core's own cache.
const readAhead = 256 << 10

// byRows reads as many whole runs at a time as that.
func (c *cutter) byRows(s span) error {
	first := min(s.lead+s.run, s.size)
	for done := int64(0); done < s.size; {
		want := first
		if done > 0 {
			want = min(max(readAhead/s.run, 1)*s.run, s.size-done)
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		b := c.buf[:want]
		if n, err := c.file.ReadAt(b, c.at+done); n < len(b) {
			return endsEarly(err)
		}
		done += want
		run := s.run
		if done == want { // the first, with what stands before its rows
			run = first
		}
		for len(b) > 0 {
			n := min(int(run), len(b))
			if err := c.add(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}

func contentAverage(size int64) int {
	average := leastContent
	for average < mostContent && size/int64(average) > contentChunks {
		average *= 2
	}
	return average
}

func (c *cutter) byContent(s span) error {
	average := contentAverage(s.size)
	o := &chunkers.ChunkerOpts{MinSize: average / 4, NormalSize: average, MaxSize: average * 4}
	part := io.NewSectionReader(c.file, c.at, s.size)
	cut, err := chunkers.NewChunkerBuffer(contentCut, part, o, c.buf)
	if err != nil {
		return err
	}
	for done := int64(0); done < s.size; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		b, err := cut.Next() // a last chunk comes with io.EOF
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(b) == 0 {
			return io.ErrUnexpectedEOF
		}
		if err := c.add(b); err != nil {
			return err
		}
		done += int64(len(b))
	}
	return nil
}
