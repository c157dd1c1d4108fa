package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Types of values in the header.
const (
	typeString = 8
	typeArray  = 9
)

// width is the bytes of a value of a type with a fixed length; false for a type that does not exist.
func width(kind uint32) (int64, bool) {
	switch kind {
	case 0, 1, 7: // 8-bit numbers, bool
		return 1, true
	case 2, 3:
		return 2, true
	case 4, 5, 6: // 32-bit numbers, the last a float
		return 4, true
	case 10, 11, 12:
		return 8, true
	}
	return 0, kind == typeString || kind == typeArray
}

// walker reads a header front to back and knows where it is.
type walker struct {
	r        *bufio.Reader
	at       int64  // offset of the next byte
	align    int64  // of the tensors' data
	elements uint64 // of all lists so far
}

// number reads a value of a fixed width.
func (w *walker) number(kind uint32) (float64, error) {
	var raw [8]byte
	bytes, _ := width(kind)
	if err := w.fill(raw[:bytes]); err != nil {
		return 0, err
	}
	u := binary.LittleEndian.Uint64(raw[:])
	unused := 64 - 8*uint(bytes)
	switch kind {
	case 1, 3, 5, 11: // signed
		return float64(int64(u<<unused) >> unused), nil
	case 6:
		return float64(math.Float32frombits(uint32(u))), nil
	case 12:
		return math.Float64frombits(u), nil
	}
	return float64(u), nil
}

// text reads a key, as the parser does without the spaces around it. No key has more than 64 bytes.
func (w *walker) text() (string, error) {
	n, err := w.u64()
	if err != nil {
		return "", err
	}
	if n > 1<<10 {
		return "", fault(fmt.Sprintf("has a key of %d bytes in its header: download it again", n))
	}
	raw := make([]byte, n)
	if err := w.fill(raw); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(raw)), nil
}

// tensorName reads the name of a tensor, "" for one longer than any engine knows.
func (w *walker) tensorName() (string, error) {
	n, err := w.u64()
	if err != nil {
		return "", err
	}
	if n > 64 {
		if n > maxHeader {
			return "", fault(fmt.Sprintf("has a text of %d bytes in its header: download it again", n))
		}
		return "", w.skip(int64(n))
	}
	raw := make([]byte, n)
	err = w.fill(raw)
	return string(raw), err
}

func (w *walker) skipString() error {
	n, err := w.u64()
	if err != nil {
		return err
	}
	if n > maxHeader {
		return fault(fmt.Sprintf("has a text of %d bytes in its header: download it again", n))
	}
	return w.skip(int64(n))
}

func (w *walker) skip(n int64) error {
	if w.at += n; w.at > maxHeader {
		return fault(fmt.Sprintf("has a header of more than %d MiB: download it again", maxHeader>>20))
	}
	_, err := w.r.Discard(int(n))
	return err
}

func (w *walker) fill(to []byte) error {
	if w.at += int64(len(to)); w.at > maxHeader {
		return fault(fmt.Sprintf("has a header of more than %d MiB: download it again", maxHeader>>20))
	}
	_, err := io.ReadFull(w.r, to)
	return err
}

func (w *walker) u32() (uint32, error) {
	var raw [4]byte
	err := w.fill(raw[:])
	return binary.LittleEndian.Uint32(raw[:]), err
}

func (w *walker) u64() (uint64, error) {
	var raw [8]byte
	err := w.fill(raw[:])
	return binary.LittleEndian.Uint64(raw[:]), err
}
