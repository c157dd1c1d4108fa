package route_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"viiwork/appliance/route"
)

// FuzzPick makes the mesh and the request out of the fuzzer's bytes.
func FuzzPick(f *testing.F) {
	f.Add([]byte("any bytes are a mesh"))
	f.Add(make([]byte, 400))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		rng := rand.New(&tape{left: bytes})
		s, r := anyMesh(rng), anyRequest(rng)
		p := route.Pick(s, r)
		for _, err := range []error{judge(s, r, p), agree(s, r, p)} {
			if err != nil {
				t.Fatalf("%v\nmesh %+v\nrequest %+v", err, s, r)
			}
		}
	})
}

// tape is bytes as a source of numbers; after its end it counts.
type tape struct {
	left []byte
	past uint64
}

func (t *tape) Uint64() uint64 {
	if len(t.left) >= 8 {
		v := binary.LittleEndian.Uint64(t.left)
		t.left = t.left[8:]
		return v
	}
	t.past++
	return t.past * 0x9e3779b97f4a7c15
}
