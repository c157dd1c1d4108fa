package mesh

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Labels of what is made from a secret besides its keys. The first is part of the wire form.
const (
	labelRotate = "viiwork rotate v1"
	labelName   = "viiwork secret name v1"
)

// envelope is what a sealed secret is bound to: one that is cut out of its message opens in no other.
type envelope struct {
	generation uint64
	stage      stage
	from, to   string
}

func (e envelope) bytes() []byte {
	var b bytes.Buffer
	for _, part := range []string{labelRotate, strconv.FormatUint(e.generation, 10), string(e.stage), e.from, e.to} {
		put(&b, part)
	}
	return b.Bytes()
}

// seal closes secret so that only who knows old can read it: on a lan the way to a member is open to everyone.
func seal(old, secret []byte, e envelope) []byte {
	return sealer(derive(old, labelRotate)).Seal(nil, nil, secret, e.bytes())
}

// unseal opens what seal closed, nil if it was not closed with old for e, or holds no secret.
func unseal(old, sealed []byte, e envelope) []byte {
	secret, err := sealer(derive(old, labelRotate)).Open(nil, nil, sealed, e.bytes())
	if err != nil || len(secret) != secretBytes {
		return nil
	}
	return secret
}

// sealer makes and reads the nonce itself. It fails only for key sizes no one asks for here.
func sealer(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("sealing a secret: " + err.Error())
	}
	sealing, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("sealing a secret: " + err.Error())
	}
	return sealing
}

// nameOf tells two secrets apart and gives neither away.
func nameOf(secret []byte) string { return hex.EncodeToString(derive(secret, labelName)[:16]) }

// fingerprint is of the secret that the configuration gives, "" for none.
func fingerprint(secret []byte) string {
	if len(secret) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("viiwork configured secret 1\n"), secret...))
	return hex.EncodeToString(sum[:])
}
