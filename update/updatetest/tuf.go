package updatetest

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Mirror is a TUF repository by which a trusted_root.json is handed out; it is its own transport.
type Mirror struct {
	URL  string
	Root []byte // its first keys

	t      testing.TB
	signer signature.Signer

	mu    sync.Mutex
	files map[string][]byte // by path
	asked int
}

// NewMirror makes one that hands out root until expires.
func NewMirror(t testing.TB, root []byte, expires time.Time) *Mirror {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.LoadSigner(private, crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	key, err := metadata.KeyFromPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	m := &Mirror{URL: "https://tuf.example", t: t, signer: signer, files: map[string][]byte{}}
	keys := metadata.Root(expires)
	for _, role := range []string{"root", "timestamp", "snapshot", "targets"} {
		if err := keys.Signed.AddKey(key, role); err != nil {
			t.Fatal(err)
		}
	}
	m.Root = seal(m, keys)
	m.files["/1.root.json"] = m.Root
	target, err := metadata.TargetFile().FromBytes("trusted_root.json", root, "sha256")
	if err != nil {
		t.Fatal(err)
	}
	targets := metadata.Targets(expires)
	targets.Signed.Targets["trusted_root.json"] = target
	m.files["/1.targets.json"] = seal(m, targets)
	m.files["/1.snapshot.json"] = seal(m, metadata.Snapshot(expires))
	m.files["/timestamp.json"] = seal(m, metadata.Timestamp(expires))
	m.files[fmt.Sprintf("/targets/%s.trusted_root.json", target.Hashes["sha256"])] = root
	return m
}

func seal[T metadata.Roles](m *Mirror, doc *metadata.Metadata[T]) []byte {
	m.t.Helper()
	if _, err := doc.Sign(m.signer); err != nil {
		m.t.Fatal(err)
	}
	text, err := doc.ToBytes(false)
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

// Asked is how many requests came.
func (m *Mirror) Asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// RoundTrip is a request of a TUF client.
func (m *Mirror) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	text, ok := m.files[req.URL.Path]
	answer := &http.Response{StatusCode: http.StatusOK, Request: req, Header: http.Header{}, ContentLength: int64(len(text))}
	if !ok {
		answer.StatusCode = http.StatusNotFound
	}
	answer.Body = io.NopCloser(strings.NewReader(string(text)))
	return answer, nil
}
