package enginetest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// Value and tensor types of the GGUF format that the tiny models need.
const (
	ggufUint32  = 4
	ggufInt32   = 5
	ggufFloat32 = 6
	ggufBool    = 7
	ggufString  = 8
	ggufArray   = 9

	ggmlF32 = 0
	ggmlF16 = 1

	ggufVersion = 3
	ggufAlign   = 32
)

// ggufFile collects keys and tensors and writes them as GGUF version 3: header, keys, tensor table, then the tensors'
// data, each part starting on a multiple of ggufAlign. Everything is little endian.
type ggufFile struct {
	keys    bytes.Buffer
	nKeys   uint64
	tensors []ggufTensor
}

// ggufTensor is one tensor: dims innermost first, as the format stores them. values is called once, while writing, so
// that only one tensor's values are in memory at a time.
type ggufTensor struct {
	name   string
	dims   []uint64
	kind   uint32
	values func() []float32
}

func (t ggufTensor) elements() uint64 {
	n := uint64(1)
	for _, d := range t.dims {
		n *= d
	}
	return n
}

func (t ggufTensor) bytes() uint64 {
	if t.kind == ggmlF16 {
		return 2 * t.elements()
	}
	return 4 * t.elements()
}

func (f *ggufFile) key(name string, kind uint32) {
	f.nKeys++
	putString(&f.keys, name)
	put(&f.keys, kind)
}

func (f *ggufFile) text(name, v string) {
	f.key(name, ggufString)
	putString(&f.keys, v)
}

func (f *ggufFile) number(name string, v int) {
	f.key(name, ggufUint32)
	put(&f.keys, uint32(v))
}

func (f *ggufFile) float(name string, v float64) {
	f.key(name, ggufFloat32)
	put(&f.keys, float32(v))
}

func (f *ggufFile) flag(name string, v bool) {
	f.key(name, ggufBool)
	put(&f.keys, v)
}

func (f *ggufFile) texts(name string, v []string) {
	f.key(name, ggufArray)
	put(&f.keys, uint32(ggufString))
	put(&f.keys, uint64(len(v)))
	for _, s := range v {
		putString(&f.keys, s)
	}
}

func (f *ggufFile) numbers(name string, v []int32) {
	f.key(name, ggufArray)
	put(&f.keys, uint32(ggufInt32))
	put(&f.keys, uint64(len(v)))
	put(&f.keys, v)
}

// WriteTo writes the whole file.
func (f *ggufFile) WriteTo(w io.Writer) (int64, error) {
	var head bytes.Buffer
	head.WriteString("GGUF")
	put(&head, uint32(ggufVersion))
	put(&head, uint64(len(f.tensors)))
	put(&head, f.nKeys)
	head.Write(f.keys.Bytes())
	var offset uint64
	for _, t := range f.tensors {
		putString(&head, t.name)
		put(&head, uint32(len(t.dims)))
		put(&head, t.dims)
		put(&head, t.kind)
		put(&head, offset)
		offset += t.bytes() + gap(t.bytes())
	}
	head.Write(make([]byte, gap(uint64(head.Len()))))

	out := bufio.NewWriterSize(w, 1<<20)
	n, err := out.Write(head.Bytes())
	if err != nil {
		return int64(n), err
	}
	for _, t := range f.tensors {
		data := encodeTensor(t)
		data = append(data, make([]byte, gap(t.bytes()))...)
		m, err := out.Write(data)
		n += m
		if err != nil {
			return int64(n), err
		}
	}
	return int64(n), out.Flush()
}

func encodeTensor(t ggufTensor) []byte {
	data := make([]byte, 0, t.bytes()+ggufAlign)
	for _, v := range t.values() {
		if t.kind == ggmlF16 {
			data = binary.LittleEndian.AppendUint16(data, halfFloat(v))
		} else {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	return data
}

// gap is how many bytes are missing from n to the next multiple of ggufAlign.
func gap(n uint64) uint64 { return -n % ggufAlign }

// put appends a fixed-size value; a bytes.Buffer never refuses a write.
func put(w io.Writer, v any) { _ = binary.Write(w, binary.LittleEndian, v) }

func putString(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}

// halfFloat rounds to IEEE 754 half precision. Weights are small finite numbers: what is too large becomes infinite,
// what is under the smallest normal half (6e-5) becomes zero.
func halfFloat(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	// Adding half of the last kept bit rounds; a carry out of the mantissa rightly raises the exponent.
	rounded := bits&0x7fffffff + 0x1000
	exponent := int(rounded>>23) - 127 + 15
	switch {
	case exponent <= 0:
		return sign
	case exponent >= 31:
		return sign | 0x7c00
	}
	return sign | uint16(exponent)<<10 | uint16(rounded>>13&0x3ff)
}
