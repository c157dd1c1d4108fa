package replica

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Manifest is what a state is made of. It holds no text and no session; the chain tells a reader who guesses a prompt
// that he has guessed it, and so goes to members alone.
type Manifest struct {
	Key    Key
	Tokens int     // how many the state holds; 0 = not known
	Chain  []Link  // of the tokens
	Layout string  // how it was cut
	Size   int64   // bytes of the state: of all chunks together
	Chunks []Chunk // in the order of the file
}

// ErrManifest is what is wrong with a manifest that is broken, lies or is too large. ErrVersion: it is of a version that
// this program does not read.
var (
	ErrManifest = errors.New("no manifest of a replica")
	ErrVersion  = errors.New("a manifest of another version")
)

// A manifest in bytes: magic and version; the key's and the layout's text behind their lengths, two bytes each; tokens
// (4 bytes), size (8), links (4), chunks (4); the links; the sums of the chunks; their sizes (4 each); and the SHA-256 of all that.
// Numbers are big endian.
const (
	manifestMagic   = "vwkv"
	manifestVersion = 1
	chunkBytes      = sha256.Size + 4
	linkBytes       = len(Link{})

	// MaxManifest is the bytes of the longest manifest there is.
	MaxManifest = 1024 + MaxTokens/LinkTokens*linkBytes + MaxChunks*chunkBytes
)

var layouts = []string{LayoutRows, LayoutMixed, LayoutContent}

// Append adds the manifest's bytes to b. It panics at no manifest, but [Parse] reads only those that pass Validate.
func (m Manifest) Append(b []byte) []byte {
	begin := len(b)
	key := m.Key.String()
	b = slices.Grow(b, 64+len(key)+len(m.Layout)+len(m.Chain)*linkBytes+len(m.Chunks)*chunkBytes)
	b = append(b, manifestMagic...)
	b = append(b, manifestVersion)
	for _, text := range []string{key, m.Layout} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
		b = append(b, text...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(m.Tokens))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Size))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Chain)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Chunks)))
	for _, l := range m.Chain {
		b = append(b, l[:]...)
	}
	for _, c := range m.Chunks {
		b = append(b, c.Sum[:]...)
	}
	for _, c := range m.Chunks {
		b = binary.BigEndian.AppendUint32(b, c.Size)
	}
	sum := sha256.Sum256(b[begin:])
	return append(b, sum[:]...)
}

// Parse reads all of b as one manifest. Its errors are [ErrManifest] and [ErrVersion].
func Parse(b []byte) (Manifest, error) {
	p := &parser{rest: b}
	m, err := p.manifest(b)
	if err != nil {
		return Manifest{}, fmt.Errorf("reading a manifest: %w", err)
	}
	return m, nil
}

func (p *parser) manifest(b []byte) (Manifest, error) {
	if len(b) > MaxManifest {
		return Manifest{}, fmt.Errorf("%w: %d bytes", ErrManifest, len(b))
	}
	if string(p.take(len(manifestMagic))) != manifestMagic {
		return Manifest{}, ErrManifest
	}
	if v := p.take(1); len(v) == 1 && v[0] != manifestVersion {
		return Manifest{}, fmt.Errorf("%w: %d, known is %d", ErrVersion, v[0], manifestVersion)
	}
	text := string(p.take(int(p.number(2))))
	layout := string(p.take(int(p.number(2))))
	tokens, size := p.number(4), p.number(8)
	links, chunks := p.number(4), p.number(4)
	if p.short || size > MaxSize || tokens > MaxTokens || links > MaxTokens/LinkTokens || chunks > MaxChunks ||
		uint64(len(p.rest)) != links*uint64(linkBytes)+chunks*chunkBytes+sha256.Size {
		return Manifest{}, fmt.Errorf("%w: its sizes do not add up", ErrManifest)
	}
	if sum := sha256.Sum256(b[:len(b)-sha256.Size]); string(sum[:]) != string(b[len(b)-sha256.Size:]) {
		return Manifest{}, fmt.Errorf("%w: its checksum is wrong", ErrManifest)
	}
	key, err := ParseKey(text)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	m := Manifest{Key: key, Tokens: int(tokens), Layout: layout, Size: int64(size), Chain: make([]Link, links), Chunks: make([]Chunk, chunks)}
	for i := range m.Chain {
		m.Chain[i] = Link(p.take(linkBytes))
	}
	for i := range m.Chunks {
		m.Chunks[i].Sum = Sum(p.take(sha256.Size))
	}
	for i := range m.Chunks {
		m.Chunks[i].Size = uint32(p.number(4))
	}
	return m, m.Validate()
}

// Validate reports what no manifest of ours says: sizes that are none, or that are not those of the whole. Its error is
// [ErrManifest].
func (m Manifest) Validate() error {
	if err := m.Key.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if !slices.Contains(layouts, m.Layout) || m.Size < 0 || m.Size > MaxSize || len(m.Chunks) > MaxChunks ||
		m.Tokens < 0 || m.Tokens > MaxTokens || len(m.Chain) != (m.Tokens+LinkTokens-1)/LinkTokens {
		return fmt.Errorf("%w: it says what cannot be", ErrManifest)
	}
	whole := int64(0)
	for _, c := range m.Chunks {
		if c.Size == 0 || c.Size > MaxChunk {
			return fmt.Errorf("%w: a chunk of %d bytes", ErrManifest, c.Size)
		}
		whole += int64(c.Size)
	}
	if whole != m.Size {
		return fmt.Errorf("%w: chunks of %d bytes make no state of %d", ErrManifest, whole, m.Size)
	}
	return nil
}

// parser takes bytes off the front of what is left, and zeros once it was short.
type parser struct {
	rest  []byte
	short bool
}

func (p *parser) take(n int) []byte {
	if n > len(p.rest) {
		p.short, p.rest = true, nil
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) number(bytes int) uint64 {
	v := uint64(0)
	for _, b := range p.take(bytes) {
		v = v<<8 | uint64(b)
	}
	return v
}
