package gguf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"

	parser "github.com/gpustack/gguf-parser-go"
)

// Bounds of a header. The largest published ones (a vocabulary of 260,000 words with its merges) have 20 MB.
const (
	maxHeader    = 256 << 20
	maxKeys      = 1 << 16
	maxTensors   = 1 << 18
	maxElements  = 8 << 20 // of all lists; the parser takes 16 bytes for each of some
	maxBlocks    = 1 << 14 // layers; the parser allocates a number for each
	maxDims      = 4
	maxFile      = 1 << 50 // bytes; sums over all shards stay far from overflow
	defaultAlign = 32
)

// header is what the walk over one file's header learns.
type header struct {
	size     int64 // of the file
	newTypes bool  // holds tensors of a type this reader does not know
	weights  weights
}

// fault is something wrong with the bytes of a file; it becomes an error with the file's name at the end of check.
type fault string

func (f fault) Error() string { return string(f) }

// check walks the header of one file and makes sure that its tensors lie within it.
func check(path string) (header, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return header{}, unreadable(path)
	}
	if err != nil {
		return header{}, fmt.Errorf("opening the model file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return header{}, fmt.Errorf("looking at the model file: %w", err)
	}
	if info.Size() > maxFile {
		return header{}, fmt.Errorf("%s claims to have %d bytes, more than any model: set path to another file", path, info.Size())
	}
	h, err := walk(file, info.Size())
	var bad fault
	switch {
	case errors.As(err, &bad):
		return header{}, fmt.Errorf("%s %w", path, bad)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return header{}, fmt.Errorf("%s is truncated: it ends within its header, after %d bytes: download it again", path, info.Size())
	case err != nil:
		return header{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return h, nil
}

func walk(r io.Reader, size int64) (header, error) {
	w := &walker{r: bufio.NewReaderSize(r, 64<<10), align: defaultAlign}
	keys, tensors, err := w.start()
	if err != nil {
		return header{}, err
	}
	for range keys {
		if err := w.key(); err != nil {
			return header{}, err
		}
	}
	h := header{size: size, weights: weights{left: size}}
	var end int64 // of the last tensor, from the start of the data
	for range tensors {
		t, err := w.tensor()
		if err != nil {
			return header{}, err
		}
		end = max(end, t.end)
		h.newTypes = h.newTypes || !t.known
		h.weights.add(t)
	}
	if tensors == 0 {
		return h, nil
	}
	start := (w.at + w.align - 1) / w.align * w.align
	if need := start + end; need > size {
		return header{}, fault(fmt.Sprintf("is truncated: its tensors need %d bytes, the file has %d: download it again", need, size))
	}
	return h, nil
}

// start reads magic, version and the two counts.
func (w *walker) start() (keys, tensors uint64, err error) {
	var magic [4]byte
	n, err := io.ReadFull(w.r, magic[:])
	if string(magic[:n]) != "GGUF"[:n] {
		return 0, 0, fault("is not a GGUF file: set path to a model in that format")
	}
	if err != nil {
		return 0, 0, err
	}
	w.at = 4
	version, err := w.u32()
	if err != nil {
		return 0, 0, err
	}
	if version < 2 || version > 3 {
		return 0, 0, fault(fmt.Sprintf("is of GGUF version %d, not 2 or 3: convert the model again", version))
	}
	if tensors, err = w.u64(); err != nil {
		return 0, 0, err
	}
	if keys, err = w.u64(); err != nil {
		return 0, 0, err
	}
	if tensors > maxTensors || keys > maxKeys {
		return 0, 0, fault(fmt.Sprintf("claims %d tensors and %d keys, more than any model: download it again", tensors, keys))
	}
	return keys, tensors, nil
}

// key reads one key and its value, keeping only the numbers that the rest of the reading depends on.
func (w *walker) key() error {
	name, err := w.text()
	if err != nil {
		return err
	}
	kind, err := w.u32()
	if err != nil {
		return err
	}
	switch {
	case kind == typeString:
		return w.skipString()
	case kind == typeArray:
		return w.array(name)
	}
	if _, exists := width(kind); !exists {
		return fault(fmt.Sprintf("has a value of unknown type %d in its header: download it again", kind))
	}
	value, err := w.number(kind)
	if err != nil {
		return err
	}
	return w.bound(name, kind, value)
}

// array skips a list. Lists of lists are refused as llama.cpp does: a reader that follows them can be led arbitrarily
// deep.
func (w *walker) array(name string) error {
	kind, err := w.u32()
	if err != nil {
		return err
	}
	n, err := w.u64()
	if err != nil {
		return err
	}
	bytes, exists := width(kind)
	if n > maxElements-w.elements || kind == typeArray || !exists {
		return fault(fmt.Sprintf("has a list of %d values of type %d in its header (%.40q), which no model has: download it again", n, kind, name))
	}
	w.elements += n
	if _, bounded := mostOf(name); bounded && kind != typeString {
		return w.numbers(name, kind, n)
	}
	if kind != typeString {
		return w.skip(int64(n) * bytes)
	}
	for range n {
		if err := w.skipString(); err != nil {
			return err
		}
	}
	return nil
}

// tensor reads one tensor's line. The length of one of an unknown type counts as zero.
func (w *walker) tensor() (tensor, error) {
	name, err := w.tensorName()
	if err != nil {
		return tensor{}, err
	}
	dims, err := w.u32()
	if err != nil {
		return tensor{}, err
	}
	if dims < 1 || dims > maxDims {
		return tensor{}, fault(fmt.Sprintf("has a tensor of %d dimensions: download it again", dims))
	}
	elements, rows := uint64(1), uint64(1)
	for i := range dims {
		d, err := w.u64()
		if err != nil {
			return tensor{}, err
		}
		if elements, err = times(elements, d); err != nil {
			return tensor{}, err
		}
		if i == 1 {
			rows = d
		}
	}
	kind, err := w.u32()
	if err != nil {
		return tensor{}, err
	}
	offset, err := w.u64()
	if err != nil {
		return tensor{}, err
	}
	bytes, known, err := tensorBytes(elements, kind)
	if err != nil {
		return tensor{}, err
	}
	if offset > math.MaxInt64/4 || bytes > math.MaxInt64/4 {
		return tensor{}, fault("has a tensor beyond the end of any file: download it again")
	}
	return tensor{name, rows, int64(bytes), int64(offset + bytes), known}, nil
}

func tensorBytes(elements uint64, kind uint32) (bytes uint64, known bool, err error) {
	trait, ok := parser.GGMLType(kind).Trait()
	if !ok || trait.BlockSize == 0 {
		return 0, false, nil
	}
	bytes, err = times((elements+trait.BlockSize-1)/trait.BlockSize, trait.TypeSize)
	return bytes, true, err
}

func times(a, b uint64) (uint64, error) {
	high, low := bits.Mul64(a, b)
	if high != 0 || low > math.MaxInt64 {
		return 0, fault("has a tensor larger than any file: download it again")
	}
	return low, nil
}
