package update

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Unpack takes the program out of a layer.
func Unpack(layer []byte) (string, error) {
	var out bytes.Buffer
	d := v1.Descriptor{Size: int64(len(layer)), Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(layer))}}
	_, _, err := unpack(bytes.NewReader(layer), d, &out)
	return out.String(), err
}
