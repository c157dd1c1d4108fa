package mesh

import (
	"encoding/hex"
	"errors"
)

// Link stands for a prompt up to one of its steps, a message or a block: it is a keyed digest of that step and of the link
// before. Two prompts that have one link in common are the same from their beginning to there. Without the mesh's
// session key a link says nothing about the text.
type Link [16]byte

// MarshalText writes the link in hexadecimal.
func (l Link) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, l[:]), nil }

var errNoLink = errors.New("reading a link: it is not 32 hexadecimal digits")

// UnmarshalText reads what MarshalText wrote.
func (l *Link) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(l)) {
		return errNoLink
	}
	if _, err := hex.Decode(l[:], text); err != nil {
		return errNoLink
	}
	return nil
}
