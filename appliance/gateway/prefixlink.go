package gateway

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"viiwork/appliance/mesh"
)

// labelPrefix makes the key of links out of the session key, so that neither they nor session digests say anything about the
// other. It is part of the wire form.
const labelPrefix = "viiwork prefix v1"

// direct is from which size on bytes are worth no copy.
const direct = 512

// linker makes a prefix out of what is put into it. A link is SHA-256 over the key, the link before and the step, cut to
// its first half: what was cut off is missing to whoever would extend the step, so it needs no second pass as HMAC does.
type linker struct {
	p    prefix
	sum  hash.Hash
	key  []byte
	last mesh.Link
	buf  []byte  // not yet in sum
	out  []byte  // room for a whole digest
	few  [8]byte // room for a character

	written int // bytes put in all, with marks and sizes
	block   int // a link is made after each so many bytes; 0 = only when told
	room    int // bytes up to then
}

func newLinker(session []byte) *linker {
	key, err := hkdf.Key(sha256.New, session, nil, labelPrefix, sha256.Size)
	if err != nil {
		panic("deriving the key of links: " + err.Error()) // for lengths no one asks for here
	}
	l := &linker{sum: sha256.New(), key: key, buf: make([]byte, 0, 4<<10), out: make([]byte, 0, sha256.Size)}
	l.begin()
	return l
}

func (l *linker) begin() {
	l.sum.Reset()
	l.sum.Write(l.key)
	l.sum.Write(l.last[:])
}

// link ends a step.
func (l *linker) link() {
	l.flush()
	copy(l.last[:], l.sum.Sum(l.out))
	p := &l.p
	p.steps++
	if len(p.Links) == maxHeads+2*maxTails { // those in the middle go, many at a time
		p.Links = append(p.Links[:maxHeads], p.Links[maxHeads+maxTails:]...)
		p.ends = append(p.ends[:maxHeads], p.ends[maxHeads+maxTails:]...)
	}
	p.Links, p.ends = append(p.Links, l.last), append(p.ends, p.whole)
	l.begin()
}

// result is the prefix. Nothing may be put after it.
func (l *linker) result() prefix {
	p := l.p
	if over := len(p.Links) - maxHeads - maxTails; over > 0 {
		p.Links = slices.Concat(p.Links[:maxHeads], p.Links[maxHeads+over:]) // it may be kept for long, the rest not
		p.ends = slices.Concat(p.ends[:maxHeads], p.ends[maxHeads+over:])
	}
	return p
}

// blocks makes a link after each n bytes from here on.
func (l *linker) blocks(n int) { l.block, l.room = n, n }

// put adds bytes of a prompt.
func (l *linker) put(b []byte) {
	if l.block > 0 || len(b) > cap(l.buf)-len(l.buf) {
		l.putSlowly(b)
		return
	}
	l.buf = append(l.buf, b...)
	l.written += len(b)
	l.p.whole.text += len(b)
}

func (l *linker) putSlowly(b []byte) {
	for l.block > 0 && len(b) >= l.room && l.p.steps < maxSteps {
		l.p.whole.text += l.room
		l.write(b[:l.room])
		b, l.room = b[l.room:], l.block
		l.link()
	}
	l.room -= len(b)
	l.p.whole.text += len(b)
	l.write(b)
}

// mark adds what is no text and keeps apart what stands on its two sides.
func (l *linker) mark(c byte) {
	if len(l.buf) == cap(l.buf) {
		l.flush()
	}
	l.buf = append(l.buf, c)
	l.written++
}

// size adds a length, behind what has it: so what is in a string cannot pass for what follows it.
func (l *linker) size(n int) {
	if cap(l.buf)-len(l.buf) < 8 {
		l.flush()
	}
	l.buf = binary.LittleEndian.AppendUint64(l.buf, uint64(n))
	l.written += 8
}

func (l *linker) write(b []byte) {
	l.written += len(b)
	if len(b) > cap(l.buf)-len(l.buf) {
		l.flush()
	}
	if len(b) >= direct {
		l.flush()
		l.sum.Write(b)
		return
	}
	l.buf = append(l.buf, b...)
}

func (l *linker) flush() {
	l.sum.Write(l.buf)
	l.buf = l.buf[:0]
}
