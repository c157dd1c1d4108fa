package modelcopy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"viiwork/appliance/mesh"
	"viiwork/appliance/modelcopy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pieceBytes = 4 << 20

var secret = []byte("0123456789abcdef0123456789abcdef")

// digestOf stands for the mesh's digest of a model. Like that it is not of all bytes.
func digestOf(_ context.Context, files []string) (string, error) {
	sum := sha256.New()
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		info, err := f.Stat()
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, info.Size())
		_, err = io.CopyN(sum, f, min(info.Size(), 64))
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return "v1:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// giver is a member that has models, on a listener of this machine.
type giver struct {
	t      testing.TB
	member mesh.Member
	keys   *mesh.Keyring
	dir    string
	server *modelcopy.Server
	web    *httptest.Server
	// before sees each question first; true = it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
	asked  atomic.Int64 // pieces
	friend atomic.Bool  // the asker is a member
	src    modelcopy.Source
	liar   *mesh.Verifier // for what a test answers itself
}

func newGiver(t testing.TB, sizes map[string]int, src modelcopy.Source) *giver {
	t.Helper()
	k, err := mesh.NewKeys(mesh.KeyConfig{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	g := &giver{t: t, keys: mesh.NewKeyring(k), dir: t.TempDir()}
	g.friend.Store(true)
	for name, size := range sizes {
		g.write(name, content(name, size))
	}
	src.Dir = g.dir
	g.src = src
	g.liar = mesh.NewVerifier(mesh.VerifierConfig{ID: "has", Keys: g.keys})
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: "has", Keys: g.keys})
	g.server = modelcopy.NewServer(modelcopy.ServerConfig{
		Verifier: verifier, Digest: digestOf, Member: func(id string) bool { return id == "asks" && g.friend.Load() },
		Find: func(model string) (modelcopy.Source, error) {
			if model != "org/m" {
				return modelcopy.Source{}, modelcopy.ErrNone
			}
			return g.src, nil
		},
	})
	g.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == modelcopy.PiecePath {
			g.asked.Add(1)
		}
		if g.before == nil || !g.before(w, r) {
			g.server.ServeHTTP(w, r)
		}
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.server.Run(ctx) }()
	t.Cleanup(func() {
		g.web.CloseClientConnections()
		g.web.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	g.member = mesh.Member{ID: "has", Name: "attic", Addr: strings.TrimPrefix(g.web.URL, "http://"), Version: "2.0.0"}
	return g
}

func (g *giver) write(name string, b []byte) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// content is bytes that no other name gives.
func content(name string, size int) []byte {
	seed := sha256.Sum256([]byte(name))
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// asker copies into a folder of its own.
type asker struct {
	t      testing.TB
	copier *modelcopy.Copier
	client *mesh.Client
	dir    string
	free   int64
	tell   func(modelcopy.Progress)
	want   modelcopy.Request
}

func newAsker(t testing.TB, g *giver) *asker {
	a := &asker{t: t, dir: t.TempDir(), free: 1 << 40, tell: func(modelcopy.Progress) {}}
	a.copier = modelcopy.NewCopier(modelcopy.CopierConfig{Digest: digestOf, Free: func(string) (int64, error) { return a.free, nil }})
	a.client = clientOf(t, "asks", g.keys)
	a.want = modelcopy.Request{Client: a.client, From: g.member, Model: "org/m", Dir: a.dir}
	return a
}

func clientOf(t testing.TB, id string, k *mesh.Keyring) *mesh.Client {
	c := mesh.NewClient(mesh.ClientConfig{
		Signer: mesh.NewSigner(mesh.SignerConfig{ID: id, Keys: k}),
		Dial:   (&net.Dialer{}).DialContext,
	})
	t.Cleanup(c.Close)
	return c
}

func (a *asker) pull(ctx context.Context) (modelcopy.Copied, error) {
	return a.copier.Pull(ctx, a.want, a.tell)
}

// has checks that a file is here, whole, and readable to all.
func (a *asker) has(name string, want []byte) {
	a.t.Helper()
	got, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil || sha256.Sum256(got) != sha256.Sum256(want) {
		a.t.Errorf("%s: %d bytes in place of %d, %v", name, len(got), len(want), err)
		return
	}
	if info, _ := os.Stat(filepath.Join(a.dir, name)); info.Mode().Perm() != 0o644 {
		a.t.Errorf("%s has mode %v", name, info.Mode())
	}
}

// holds checks that nothing but these files is in the folder.
func (a *asker) holds(want ...string) {
	a.t.Helper()
	all, err := os.ReadDir(a.dir)
	if err != nil {
		a.t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range all {
		got[e.Name()] = true
	}
	for _, name := range want {
		if !got[name] {
			a.t.Errorf("%s is missing", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		a.t.Errorf("left: %v", got)
	}
}

// signed answers in the giver's name whatever a test likes.
func (g *giver) signed(w http.ResponseWriter, r *http.Request, body []byte) {
	peer, err := g.liar.Check(r)
	if err != nil {
		mesh.WriteRefusal(w, err)
		return
	}
	mesh.WriteSigned(w, r, peer, body)
}
