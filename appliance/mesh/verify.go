package mesh

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxSkew is how far a request's time may be from the receiver's.
	maxSkew = 30 * time.Second
	// maxNonces bounds those remembered of one span of 2·maxSkew: some 1,000 signed requests a second.
	maxNonces = 1 << 16
)

// ErrBodyDigest is returned at the end of a body that is not the one announced in the signed headers.
var ErrBodyDigest = errors.New("the body is not the one that was signed")

// VerifierConfig is what a Verifier is made of.
type VerifierConfig struct {
	ID   string           // of this node
	Keys *Keyring         // nil = those of an open mesh
	Now  func() time.Time // the machine's clock; nil = time.Now
}

// Verifier checks who sent a request, and that it is meant for this node, now, and for the first time.
type Verifier struct {
	cfg    VerifierConfig
	clock  *steadyClock
	start  time.Time // what is signed for a time before it may have been seen by an earlier run
	nonces *nonces
}

// Peer is the member that sent a request.
type Peer struct {
	ID        string
	Wire      int  // version it speaks
	Forwarded bool // the request entered the mesh at the peer: it must not be forwarded again

	digest [32]byte
	key    []byte // the request was signed with
}

// String keeps the key out of whatever prints a Peer.
func (p Peer) String() string   { return p.ID }
func (p Peer) GoString() string { return p.ID }

// NewVerifier makes a Verifier.
func NewVerifier(cfg VerifierConfig) *Verifier {
	cfg.Keys = cfg.Keys.orOpen()
	v := &Verifier{cfg: cfg, clock: newSteadyClock(cfg.Now), nonces: newNonces(2*maxSkew, maxNonces)}
	v.start = v.clock.tell().Truncate(time.Millisecond)
	return v
}

// FromMember reports whether r claims to come from a member, so that it must pass Check before anything is done for
// it. Clients have no business with these headers.
func FromMember(r *http.Request) bool {
	for _, name := range []string{headerFrom, headerTo, headerHop, headerSignature} {
		if _, there := r.Header[name]; there {
			return true
		}
	}
	return false
}

// Check reads r's headers and not its body. The error is a *Refusal. A request passes once: a second Check of it is a
// replay.
func (v *Verifier) Check(r *http.Request) (Peer, error) {
	now := v.clock.tell()
	known := "" // the sender, once the signature is good
	refuse := func(code string) (Peer, error) {
		return Peer{}, &Refusal{Code: code, From: known, at: formatTime(now)}
	}
	if !FromMember(r) {
		return refuse(codeUnsigned)
	}
	s, ok := readSigned(r)
	if !ok {
		return refuse(codeMalformed)
	}
	keys := v.cfg.Keys.Load()
	key := keys.maker(r, s.signature)
	switch {
	case key == nil && hmac.Equal(s.signature, signature(keys.open, r)):
		return refuse(codeOpenMesh)
	case key == nil:
		return refuse(codeSignature)
	}
	known = s.from
	if s.to != v.cfg.ID {
		return refuse(codeReceiver)
	}
	if refused := v.late(s, now, key); refused != nil {
		return Peer{}, refused
	}
	fresh, room := v.nonces.add(s.nonce, now)
	switch {
	case !fresh:
		return refuse(codeReplay)
	case !room:
		return refuse(codeBusy)
	case len(r.Header[headerHop]) > 1:
		return refuse(codeHops)
	}
	return Peer{ID: s.from, Wire: s.wire, Forwarded: len(r.Header[headerHop]) == 1, digest: s.digest, key: key}, nil
}

// admit says who asks for what members tell each other. In a secured mesh only members may; in another one, anybody may
// without a signature, and is told apart by address.
func (v *Verifier) admit(r *http.Request) (peer Peer, who string, err error) {
	if peer, err = v.Check(r); err == nil {
		return peer, "id " + peer.ID, nil
	}
	var refused *Refusal
	if errors.As(err, &refused) && refused.Code == codeUnsigned && !v.cfg.Keys.Load().Secured() {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return Peer{Wire: Wire}, "addr " + host, nil
	}
	return Peer{}, "", err
}

// maker finds the accepted key that made the signature, nil if none did.
func (k Keys) maker(r *http.Request, sum []byte) []byte {
	for _, key := range k.accept {
		if hmac.Equal(sum, signature(key, r)) {
			return key
		}
	}
	return nil
}

// late refuses a request that is out of its time, and tells its sender the right one.
func (v *Verifier) late(s signed, now time.Time, key []byte) *Refusal {
	skew := s.time.Sub(now)
	if skew.Abs() <= maxSkew && !s.time.Before(v.start) {
		return nil
	}
	at := formatTime(now)
	proof := clockSignature(key, s.from, s.to, encoding.EncodeToString(s.nonce[:]), at)
	return &Refusal{Code: codeClock, From: s.from, Skew: skew, at: at, proof: encoding.EncodeToString(proof)}
}

// VerifyBody gives a reader of r's body that ends in ErrBodyDigest, never in io.EOF, if the body is not the one that
// was signed. Nothing of the body may be used before the reader has ended in io.EOF.
func (p Peer) VerifyBody(body io.Reader) io.Reader {
	return &digestReader{from: body, sum: sha256.New(), want: p.digest}
}

type digestReader struct {
	from io.Reader
	sum  hash.Hash
	want [32]byte
}

func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	d.sum.Write(p[:n])
	if err == io.EOF && [32]byte(d.sum.Sum(nil)) != d.want {
		err = ErrBodyDigest
	}
	return n, err
}

// signed is the signed headers of a request, in their types.
type signed struct {
	from, to  string
	wire      int
	time      time.Time
	nonce     [16]byte
	digest    [32]byte
	signature []byte
}

// readSigned wants each header once and well formed.
func readSigned(r *http.Request) (s signed, ok bool) {
	h := r.Header
	if len(signedNames(h)) > maxSignedHeaders {
		return s, false
	}
	for _, name := range []string{headerFrom, headerTo, headerWire, headerTime, headerNonce, headerDigest, headerSignature} {
		if len(h[name]) != 1 {
			return s, false
		}
	}
	s.from, s.to = h.Get(headerFrom), h.Get(headerTo)
	wire, err := strconv.ParseUint(h.Get(headerWire), 10, 16)
	s.wire = int(wire)
	var timed, sized bool
	s.time, timed = parseTime(h.Get(headerTime))
	nonce, digest := decode(h.Get(headerNonce), 16), decode(h.Get(headerDigest), 32)
	s.signature = decode(h.Get(headerSignature), 32)
	if sized = nonce != nil && digest != nil && s.signature != nil; sized {
		s.nonce, s.digest = [16]byte(nonce), [32]byte(digest)
	}
	for _, hop := range h[headerHop] {
		if hop != "1" {
			return s, false
		}
	}
	return s, err == nil && timed && sized && isID(s.from) && isID(s.to)
}

// decode gives exactly size bytes, or nil.
func decode(s string, size int) []byte {
	if len(s) != encoding.EncodedLen(size) {
		return nil
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}
