package replica_test

import (
	"bytes"
	"testing"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/replica/replicatest"
)

// FuzzState: whatever is in a file, its chunks are the file, and its manifest is a good one.
func FuzzState(f *testing.F) {
	tokens := replicatest.Tokens(70, 1)
	for _, shape := range []replicatest.Shape{
		{Layers: 1, Row: 8}, {Layers: 2, Row: 8, Slots: 3, Slot: 1}, {Layers: 1, Row: 8, Transposed: true}, {Layers: 1, Row: 8, Window: 10},
		{Layers: 1, Row: 8, Tail: []byte("SCKP")},
	} {
		f.Add(replicatest.State(tokens, shape))
	}
	f.Add(replicatest.State(nil, replicatest.Shape{}))
	f.Add([]byte("qsgg"))
	f.Fuzz(func(t *testing.T, state []byte) {
		m := cut(t, state)
		if _, err := replica.Parse(m.Append(nil)); err != nil {
			t.Error(err)
		}
	})
}

// FuzzManifest: what is read is well-formed and is written as it came.
func FuzzManifest(f *testing.F) {
	good := cut(f, replicatest.State(replicatest.Tokens(300, 1), replicatest.Shape{Layers: 1, Row: 8}))
	f.Add(good.Append(nil))
	f.Add(cut(f, nil).Append(nil))
	f.Add([]byte("vwkv\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would keep all that is changed away from the parser.
		sums := [][]byte{b}
		if len(b) > 0 {
			sums = append(sums, sealed(append(b, make([]byte, 32)...), func(b []byte) []byte { return b }))
		}
		for _, b := range sums {
			m, err := replica.Parse(b)
			if err != nil {
				continue
			}
			if err := m.Validate(); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(m.Append(nil), b) {
				t.Error("it is written otherwise than it came")
			}
		}
	})
}
