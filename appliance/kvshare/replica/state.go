package replica

import (
	"errors"
	"fmt"
	"io"
)

// Layouts say how a state was cut.
const (
	LayoutRows    = "rows"         // all of it along the rows of K and V
	LayoutMixed   = "rows+content" // the first cache along its rows, what follows by its content
	LayoutContent = "content"
)

// ErrTooLarge is the error of a state over MaxSize, or of more chunks than MaxChunks.
var ErrTooLarge = errors.New("the state is too large")

// State is a file with the saved state of one slot, and what it says about itself.
type State struct {
	Tokens  []int32 // what the slot holds; nil where the header does not tell
	Streams int     // 1 = one cache for all slots, else a stream for each; 0 = not known
	Layout  string
	Opaque  string // why not all is cut along its rows; "" = all is

	file  io.ReaderAt
	size  int64
	spans []span
}

// span is a part of the file that is cut in one way.
type span struct {
	size int64
	lead int64 // bytes before the first row, which go into the first chunk
	run  int64 // bytes of a chunk; 0 = cut by content
}

// chunks is how many chunks come of a span that is cut in runs.
func (s span) chunks() int64 { return max(1, (s.size-s.lead+s.run-1)/s.run) }

// Read looks at a state of size bytes. A file that is not understood is no error: it is opaque. It reads the header, the
// cells and a few bytes of each layer; memory is taken for the token ids alone.
func Read(file io.ReaderAt, size int64) (*State, error) {
	if size < 0 || size > MaxSize {
		return nil, fmt.Errorf("reading a state of %d bytes: %w", size, ErrTooLarge)
	}
	s := &State{Layout: LayoutContent, file: file, size: size}
	c := &cursor{r: file, size: size}
	s.Tokens = c.header()
	if c.failed() {
		s.Opaque = c.why
		s.spans = []span{{size: size}}
		return s, c.err
	}
	s.spans = headerSpans(len(s.Tokens), c.at)
	begin := c.at
	cache, streams := c.cache()
	switch {
	case c.failed():
		s.Opaque, c.at = c.why, begin
	default:
		s.Streams, s.Layout = streams, LayoutRows
		s.spans = append(s.spans, cache...)
	}
	if rest := size - c.at; rest > 0 {
		if s.Opaque == "" {
			s.Layout, s.Opaque = LayoutMixed, "a second cache or checkpoints follow the first cache"
		}
		s.spans = append(s.spans, span{size: rest})
	}
	s.spans = coarsen(s.spans)
	return s, c.err
}

const (
	tokenBytes  = 4
	tokensBegin = 24 // magic, version, number of words, and the three words before the tokens
	tokenRun    = 1024 * tokenBytes
)

// headerSpans: what changes with every token is kept apart from the token ids, which only grow.
func headerSpans(tokens int, end int64) []span {
	ids := int64(tokens) * tokenBytes
	spans := []span{{size: tokensBegin, run: tokensBegin}}
	if ids > 0 {
		spans = append(spans, span{size: ids, run: tokenRun})
	}
	return append(spans, span{size: end - tokensBegin - ids, run: end - tokensBegin - ids})
}

// rowChunks is how many chunks the rows of a state may be cut into. Over it chunks are made larger for all of it: the
// save at which that happens shares nothing with the one before.
const rowChunks = 190_000

func coarsen(spans []span) []span {
	for {
		total, can := int64(0), false
		for _, s := range spans {
			if s.run > 0 {
				total += s.chunks()
				can = can || s.coarser()
			}
		}
		if total <= rowChunks || !can {
			return spans
		}
		for i, s := range spans {
			if s.coarser() {
				spans[i].run *= 2
			}
		}
	}
}

// coarser tells that there is something to be won by runs twice as long, and that they are still chunks.
func (s span) coarser() bool { return s.run > 0 && s.chunks() > 1 && s.lead+2*s.run <= MaxChunk }

// Size is the state's, in bytes.
func (s *State) Size() int64 { return s.size }

// Chunks is how many there will be, about where it is cut by content.
func (s *State) Chunks() int {
	n := int64(0)
	for _, span := range s.spans {
		switch {
		case span.size == 0:
		case span.run > 0:
			n += span.chunks()
		default:
			n += max(1, span.size/int64(contentAverage(span.size)))
		}
	}
	return int(min(n, MaxChunks))
}
