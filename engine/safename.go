package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SafeName turns a backend id into a name that is good for a file and a container: readable letters first, then eight
// digits of the id's digest, so that "org/m#0" and "org-m#0" never share one, not even on a file system that ignores
// case. At most 57 bytes.
func SafeName(backend string) string {
	const readable = 48
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, backend)
	name = strings.Trim(name, ".-_")
	if len(name) > readable {
		name = name[:readable]
	}
	sum := sha256.Sum256([]byte(backend))
	return name + "-" + hex.EncodeToString(sum[:4])
}
