package updatetest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"fmt"
	"math/bits"
	"sync"
	"testing"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekor "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/sigstore/pkg/signature"
	checkpoint "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

const origin = "log.example"

// log is a signature log as Rekor 2 is one: a Merkle tree and signed checkpoints, and no word about the time.
type log struct {
	t   testing.TB
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves [][]byte // hashes
}

func newLog(t testing.TB) *log { return &log{t: t, key: newKey(t)} }

func (l *log) append(body []byte) (index int) {
	l.leaves = append(l.leaves, rfc6962.DefaultHasher.HashLeaf(body))
	return len(l.leaves) - 1
}

// Add is the log's one request.
func (l *log) Add(_ context.Context, request any) (*protorekor.TransparencyLogEntry, error) {
	asked, ok := request.(*rekor.HashedRekordRequestV002)
	if !ok {
		return nil, fmt.Errorf("a request of type %T", request)
	}
	entry := &rekor.Entry{Kind: "hashedrekord", ApiVersion: "0.0.2", Spec: &rekor.Spec{Spec: &rekor.Spec_HashedRekordV002{
		HashedRekordV002: &rekor.HashedRekordLogEntryV002{
			Signature: asked.Signature, Data: &protocommon.HashOutput{Digest: asked.Digest, Algorithm: protocommon.HashAlgorithm_SHA2_256},
		},
	}}}
	text, err := protojson.Marshal(entry)
	if err != nil {
		return nil, err
	}
	body, err := jsoncanonicalizer.Transform(text)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	index := l.append(body)
	tree, path := prove(l.leaves, index)
	signed, err := l.checkpoint(tree)
	if err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: int64(index), LogId: &protocommon.LogId{KeyId: keyID(l.t, l.key)},
		KindVersion:       &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"},
		CanonicalizedBody: body,
		InclusionProof: &protorekor.InclusionProof{
			LogIndex: int64(index), RootHash: tree, TreeSize: int64(len(l.leaves)), Hashes: path,
			Checkpoint: &protorekor.Checkpoint{Envelope: signed},
		},
	}, nil
}

func (l *log) checkpoint(tree []byte) (string, error) {
	key, err := signature.LoadECDSASigner(l.key, crypto.SHA256)
	if err != nil {
		return "", err
	}
	signer, err := rekornote.NewNoteSigner(context.Background(), origin, key)
	if err != nil {
		return "", err
	}
	text := checkpoint.Checkpoint{Origin: origin, Size: uint64(len(l.leaves)), Hash: tree}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(text)}, signer)
	return string(signed), err
}

// prove returns the root of a tree and the path of one of its leaves to it (RFC 6962, 2.1).
func prove(leaves [][]byte, index int) (tree []byte, path [][]byte) {
	if len(leaves) == 1 {
		return leaves[0], nil
	}
	cut := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
	if index >= 0 && index < cut {
		left, path := prove(leaves[:cut], index)
		right, _ := prove(leaves[cut:], -1)
		return rfc6962.DefaultHasher.HashChildren(left, right), append(path, right)
	}
	left, _ := prove(leaves[:cut], -1)
	if index >= 0 {
		index -= cut
	}
	right, path := prove(leaves[cut:], index)
	return rfc6962.DefaultHasher.HashChildren(left, right), append(path, left)
}
