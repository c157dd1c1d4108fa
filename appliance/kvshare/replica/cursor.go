package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The form of a state file, little endian throughout: magic, version, the number of words, the words -1, 1, n and then n
// token ids and a 0; the number of streams; for each of them its cells (position, number of sequences, sequence) and, if
// it has any, four words of which the first says whether V is transposed and the second how many layers there are; then
// for each layer the rows of K, one for each cell, behind their type and size; then those of V. A model with a sliding
// window has a second cache of the same form behind it; checkpoints may follow. Decoded from files of llama.cpp's 0.7.0,
// which reads no other version than its own.
const (
	stateMagic   = 'q' | 's'<<8 | 'g'<<16 | 'g'<<24
	stateVersion = 4

	frameWords = 4 // words of the header that are no token ids
	maxStreams = maxSlots
	maxLayers  = 4096
	maxRow     = MaxChunk / 2 // bytes of one token in one layer's K or V
	cellBytes  = 12
	cellRun    = 1024 * cellBytes
	rowRun     = 64 // rows of one layer's K or V in a chunk
)

// cursor reads a file of which nothing is believed. After the first thing that does not add up it says why and reads
// zeros.
type cursor struct {
	r    io.ReaderAt
	at   int64
	size int64
	why  string // what does not add up
	err  error  // reading failed
	buf  [64 << 10]byte
}

func (c *cursor) failed() bool { return c.why != "" || c.err != nil }

func (c *cursor) stop(format string, args ...any) {
	if !c.failed() {
		c.why = fmt.Sprintf(format, args...)
	}
}

// take reads the next n bytes, len(c.buf) at most. They are valid until the next call; nil after a failure.
func (c *cursor) take(n int64) []byte {
	if c.failed() {
		return nil
	}
	if n > c.size-c.at {
		c.stop("it ends early")
		return nil
	}
	if got, err := c.r.ReadAt(c.buf[:n], c.at); int64(got) < n {
		c.err = fmt.Errorf("reading a state: %w", endsEarly(err))
		return nil
	}
	c.at += n
	return c.buf[:n]
}

// endsEarly: a file that is shorter than it was said to be has not come to its end as it should.
func endsEarly(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *cursor) u32() int64 {
	if b := c.take(4); b != nil {
		return int64(binary.LittleEndian.Uint32(b))
	}
	return 0
}

// count reads a number of things of which each takes size bytes at least, limit at most.
func (c *cursor) count(what string, size, limit int64) int64 {
	n := c.u32()
	if n > limit || n*size > c.size-c.at {
		c.stop("it says it has %d %s", n, what)
		return 0
	}
	return n
}

func (c *cursor) header() []int32 {
	if c.u32() != stateMagic {
		c.stop("it is none of llama.cpp's")
		return nil
	}
	if v := c.u32(); v != stateVersion {
		c.stop("its version is %d, known is %d", v, stateVersion)
		return nil
	}
	words := c.count("words", tokenBytes, MaxTokens+frameWords)
	first, kind, n := int32(c.u32()), c.u32(), c.u32()
	if first != -1 || kind != 1 || n+frameWords != words {
		c.stop("its header holds more than token ids")
		return nil
	}
	tokens := make([]int32, 0, n) // count has seen that so many are in the file
	for int64(len(tokens)) < n && !c.failed() {
		b := c.take(min(int64(len(c.buf)), (n-int64(len(tokens)))*tokenBytes))
		for ; len(b) > 0; b = b[tokenBytes:] {
			tokens = append(tokens, int32(binary.LittleEndian.Uint32(b)))
		}
	}
	if c.u32() != 0 {
		c.stop("its header holds more than token ids")
	}
	if c.failed() {
		return nil
	}
	return tokens
}

// cache reads one cache and says how it is cut, and how many streams it has.
func (c *cursor) cache() ([]span, int) {
	var spans []span
	streams := c.count("streams", 4, maxStreams)
	begin := c.at - 4
	for range streams {
		cells := c.count("cells", cellBytes, MaxTokens)
		if cells == 0 {
			continue
		}
		// The number of cells changes with every token: it goes into a chunk with what little stands before it.
		spans = append(spans, span{size: c.at - begin, run: c.at - begin})
		spans = append(spans, c.cells(cells))
		begin = c.at
		for _, s := range c.layers(cells) {
			spans = append(spans, s)
			begin += s.size
		}
	}
	if c.at > begin {
		spans = append(spans, span{size: c.at - begin, run: c.at - begin})
	}
	return spans, int(streams)
}

// cells are of one form only where each belongs to one sequence and has nothing but a position.
func (c *cursor) cells(n int64) span {
	for left := n; left > 0 && !c.failed(); {
		some := min(left, int64(len(c.buf))/cellBytes)
		for b := c.take(some * cellBytes); len(b) > 0; b = b[cellBytes:] {
			if binary.LittleEndian.Uint32(b[4:]) != 1 {
				c.stop("a cell does not belong to one sequence")
			}
		}
		left -= some
	}
	return span{size: n * cellBytes, run: cellRun}
}

func (c *cursor) layers(cells int64) []span {
	lead := c.at
	if c.u32() != 0 {
		c.stop("V is transposed")
	}
	n := c.count("layers", 2*(4+8), maxLayers)
	c.take(8)
	spans := make([]span, 0, 2*n)
	for range 2 * n { // K of all layers, then V of all
		c.u32()
		row := int64(0)
		if b := c.take(8); b != nil {
			row = int64(min(binary.LittleEndian.Uint64(b), maxRow+1))
		}
		if row == 0 || row > maxRow || row*cells > c.size-c.at {
			c.stop("a row is of no size, or of one that is not there")
		}
		if c.failed() {
			return nil
		}
		s := span{size: c.at - lead + row*cells, lead: c.at - lead, run: row * rowRun}
		for s.lead+s.run > MaxChunk {
			s.run = s.run / row / 2 * row
		}
		spans = append(spans, s)
		c.at += row * cells
		lead = c.at
	}
	return spans
}
