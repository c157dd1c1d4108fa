package mesh

import (
	"crypto/hmac"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// SignerConfig is what a Signer is made of.
type SignerConfig struct {
	ID   string           // of this node
	Keys *Keyring         // nil = those of an open mesh
	Now  func() time.Time // the machine's clock; nil = time.Now
}

// Signer signs this node's requests. It remembers how far each receiver's clock is from its own.
type Signer struct {
	cfg SignerConfig

	mu   sync.Mutex
	skew map[string]time.Duration // by receiver, to be added to our clock
}

// maxSkews bounds the clocks remembered: more than there are members.
const maxSkews = 2 * maxMembers

// NewSigner makes a Signer.
func NewSigner(cfg SignerConfig) *Signer {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Keys = cfg.Keys.orOpen()
	return &Signer{cfg: cfg, skew: map[string]time.Duration{}}
}

// Sign makes req this node's own, for receiver alone, with a body of the given SHA-256. It must be the last to touch
// the request's method, URL and X-Viiwork-* headers.
func (s *Signer) Sign(req *http.Request, receiver string, digest [32]byte) {
	s.signWith(s.cfg.Keys.Load().sign, req, receiver, digest)
}

// signWith is Sign with a key of the caller's choice, for members that do not know the ruling one.
func (s *Signer) signWith(key []byte, req *http.Request, receiver string, digest [32]byte) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	h := req.Header
	h.Set(headerFrom, s.cfg.ID)
	h.Set(headerTo, receiver)
	h.Set(headerWire, strconv.Itoa(Wire))
	h.Set(headerTime, formatTime(s.cfg.Now().Add(s.Skew(receiver))))
	h.Set(headerNonce, encoding.EncodeToString(nonce[:]))
	h.Set(headerDigest, encoding.EncodeToString(digest[:]))
	h.Set(headerSignature, encoding.EncodeToString(signature(key, req)))
}

// Skew tells how far ahead receiver's clock is of this machine's, as far as receiver ever had to say so.
func (s *Signer) Skew(receiver string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.skew[receiver]
}

// learn takes the receiver's clock from its refusal of req. It reports whether the refusal proves two things: that the
// receiver made it, and that nothing but the clock stood in the way.
func (s *Signer) learn(req *http.Request, resp *http.Response) bool {
	if resp.StatusCode != http.StatusForbidden || resp.Header.Get(headerRefused) != codeClock {
		return false
	}
	at := resp.Header.Get(headerTime)
	theirs, ok := parseTime(at)
	sum, err := encoding.DecodeString(resp.Header.Get(headerSignature))
	to := req.Header.Get(headerTo)
	proves := func(key []byte) bool { // by the key it was signed with, which may have been replaced since
		return hmac.Equal(sum, clockSignature(key, req.Header.Get(headerFrom), to, req.Header.Get(headerNonce), at))
	}
	if !ok || err != nil || !slices.ContainsFunc(s.cfg.Keys.Load().accept, proves) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.skew[to]; !known && len(s.skew) >= maxSkews {
		clear(s.skew) // each costs its member one refusal to learn again
	}
	s.skew[to] = theirs.Sub(s.cfg.Now())
	return true
}
