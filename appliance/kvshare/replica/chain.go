package replica

import (
	"crypto/sha256"
	"encoding/binary"
)

// LinkTokens is how many tokens a link of a chain stands for.
const LinkTokens = 256

// Link stands for all tokens of a state up to a place: it is a digest of the link before and of the tokens since.
type Link [16]byte

// Chain gives a link for every LinkTokens tokens, and one for what is left of them. Where two chains have the same link
// at the same place, all tokens up to there are the same.
func Chain(tokens []int32) []Link {
	links := make([]Link, 0, (len(tokens)+LinkTokens-1)/LinkTokens)
	var buf [len(Link{}) + 4*LinkTokens]byte
	for len(tokens) > 0 {
		n := min(LinkTokens, len(tokens))
		b := buf[:len(Link{})]
		for _, t := range tokens[:n] {
			b = binary.LittleEndian.AppendUint32(b, uint32(t))
		}
		sum := sha256.Sum256(b)
		copy(buf[:], sum[:len(Link{})])
		links = append(links, Link(sum[:]))
		tokens = tokens[n:]
	}
	return links
}

// Shared is how many tokens from the first on two states have in common, as far as their chains tell. The last link of a
// chain may stand for fewer tokens than a full one, and says something only where both chains end with it.
func (m Manifest) Shared(o Manifest) int {
	return min(CommonPrefix(m.Chain, o.Chain)*LinkTokens, m.Tokens, o.Tokens)
}

// CommonPrefix is how many from the first on are the same in a and b.
func CommonPrefix[T comparable](a, b []T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
