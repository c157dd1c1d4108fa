package enginetest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// A slot file is laid out as the engine's own: magic and version, the tokens, a cell for each of them, then the rows of
// K of each layer and the rows of V of each.
const (
	stateMagic   = "qsgg"
	stateVersion = 4
	stateHead    = 24 // bytes before the tokens: magic, version, number of words, and three words
)

// layout is the form of the slot files of one model.
type layout struct {
	layers int
	row    int // bytes of one token in one layer's K or V
}

func (o Options) layout() layout {
	return layout{o.StateLayers, max(1, o.StateBytes/2/o.StateLayers)}
}

// size of the file of so many tokens.
func (l layout) size(tokens int) int64 {
	head := stateHead + 4*tokens + 4
	if tokens == 0 {
		return int64(head + 8) // one stream without cells has no layers
	}
	return int64(head+8+12*tokens+16) + 2*int64(l.layers)*(12+int64(tokens)*int64(l.row))
}

// write puts the file of these tokens together.
func (l layout) write(w io.Writer, tokens []byte) error {
	b := bufio.NewWriterSize(w, 1<<20)
	n := len(tokens)
	b.WriteString(stateMagic)
	put(b, []uint32{stateVersion, uint32(n + 4)})
	put(b, []int32{-1, 1, int32(n)})
	words := make([]int32, n)
	for i, t := range tokens {
		words[i] = int32(tokenID(t))
	}
	put(b, append(words, 0))
	put(b, []uint32{1, uint32(n)})
	if n == 0 {
		return b.Flush()
	}
	cells := make([]int32, 0, 3*n)
	for pos := range n {
		cells = append(cells, int32(pos), 1, 0)
	}
	put(b, cells)
	put(b, []uint32{0, uint32(l.layers), 0, 0})
	line := make([]byte, l.row)
	for part := range 2 * l.layers {
		put(b, uint32(ggmlF16))
		put(b, uint64(l.row))
		// A row depends on all tokens up to its own, as KV does.
		sum := uint32(part)
		for i := range n {
			sum = crc32.Update(sum, crc32.IEEETable, tokens[i:i+1])
			fill(line, sum)
			if _, err := b.Write(line); err != nil {
				return err
			}
		}
	}
	return b.Flush()
}

// fill repeats four bytes.
func fill(line []byte, v uint32) {
	var four [4]byte
	binary.LittleEndian.PutUint32(four[:], v)
	for done := copy(line, four[:]); done < len(line); {
		done += copy(line[done:], line[:done])
	}
}

var errBadState = errors.New("not a slot file of this engine")

// read gives the tokens of a file. As the engine does, it looks at the form and takes the rows for what they are.
func (l layout) read(f *os.File, most int) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var head [stateHead]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(head[20:]))
	if string(head[:4]) != stateMagic || binary.LittleEndian.Uint32(head[4:]) != stateVersion || n > most || info.Size() != l.size(n) {
		return nil, errBadState
	}
	words := make([]byte, 4*n)
	if _, err := io.ReadFull(f, words); err != nil {
		return nil, err
	}
	tokens := make([]byte, n)
	for i := range tokens {
		tokens[i] = holdID(int(int32(binary.LittleEndian.Uint32(words[4*i:]))))
	}
	return tokens, nil
}
