package mesh

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
)

// secretBytes is the size of a mesh secret.
const secretBytes = 32

// Labels make a key of its own out of the secret for each use, so that what one use gives away opens no other. They
// are part of the wire form.
const (
	labelGossip = "viiwork gossip v1"
	labelHTTP   = "viiwork http v1"

	labelSession     = "viiwork session v1"
	labelSessionSeal = "viiwork session seal v1"
)

// openSecret stands where an open mesh has no secret. It is published on purpose: signatures made with it keep the form
// of a request the same in every mesh and prove nothing.
const openSecret = "viiwork: a mesh that is open"

// KeyConfig is what Keys are made from.
type KeyConfig struct {
	Secret  []byte // 32 bytes; nil = an open mesh
	Prev    []byte // a second one that is accepted and not used, while a secret is replaced; nil = none
	Enforce string // none, outgoing or full, the steps from an open to a secured mesh; "" = full
}

// Keys are the mesh's keys as they stand at one moment. They print as a placeholder.
type Keys struct {
	sign   []byte   // of requests that leave
	accept [][]byte // of requests that arrive
	open   []byte   // what an open mesh signs with
	gossip [][]byte // nil = gossip is not encrypted
	strict bool     // only who knows a secret is a member

	session []byte   // the key of sessions of a mesh that has had no other secret
	seals   [][]byte // what that key is told and kept under, the one to use first; nil = an open mesh
}

// NewKeys derives the keys.
func NewKeys(cfg KeyConfig) (Keys, error) {
	k := Keys{open: derive([]byte(openSecret), labelHTTP), session: derive([]byte(openSecret), labelSession)}
	k.sign, k.accept = k.open, [][]byte{k.open}
	if len(cfg.Secret) == 0 {
		if len(cfg.Prev) > 0 {
			return Keys{}, errors.New("making the mesh keys: a previous secret without a current one: set the secret, or unset the previous one")
		}
		return k, nil
	}
	secrets := [][]byte{cfg.Secret}
	if len(cfg.Prev) > 0 {
		secrets = append(secrets, cfg.Prev)
	}
	k.accept = nil
	for _, s := range secrets {
		if len(s) != secretBytes {
			return Keys{}, fmt.Errorf("making the mesh keys: the secret has %d bytes, not %d: make one with 'openssl rand -base64 32'", len(s), secretBytes)
		}
		k.accept = append(k.accept, derive(s, labelHTTP))
		k.gossip = append(k.gossip, derive(s, labelGossip))
		k.seals = append(k.seals, derive(s, labelSessionSeal))
	}
	k.session = derive(cfg.Secret, labelSession)
	switch cfg.Enforce {
	case "", "full":
		k.sign, k.strict = k.accept[0], true
	case "outgoing":
		k.sign = k.accept[0]
	case "none":
	default:
		return Keys{}, fmt.Errorf("making the mesh keys: there is no enforcement %q: use none, outgoing or full", cfg.Enforce)
	}
	if !k.strict {
		k.accept = append(k.accept, k.open)
	}
	return k, nil
}

// derive is HKDF-SHA256 without salt. It fails only for lengths no one asks for here.
func derive(secret []byte, label string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, label, 32)
	if err != nil {
		panic("deriving a mesh key: " + err.Error())
	}
	return key
}

// Gossip gives the keys gossip is encrypted with, the one to use first; nil in an open mesh.
func (k Keys) Gossip() [][]byte {
	var keys [][]byte
	for _, key := range k.gossip {
		keys = append(keys, append([]byte(nil), key...))
	}
	return keys
}

// second is the key of requests that is understood beside the first one, nil if there is none: the secret may have been
// settled since somebody saw two.
func (k Keys) second() []byte {
	if len(k.accept) < 2 {
		return nil
	}
	return k.accept[1]
}

// Secured reports whether only those who know the secret are heard.
func (k Keys) Secured() bool { return k.strict }

func (Keys) String() string       { return "(mesh keys)" }
func (Keys) GoString() string     { return "(mesh keys)" }
func (Keys) LogValue() slog.Value { return slog.StringValue("(mesh keys)") }
