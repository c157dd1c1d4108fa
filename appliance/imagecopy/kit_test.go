package imagecopy_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"viiwork/appliance/imagecopy"
	"viiwork/appliance/mesh"
	"viiwork/images"
	"viiwork/images/imagestest"
	"viiwork/images/papers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// engine is an image, and a docker that holds it: what a test changes of what it saves stays changed.
type engine struct {
	imagestest.Content
	saved func() io.Reader
	size  int64
	gone  bool
	saves atomic.Int32
}

// newEngine has an image of three layers.
func newEngine(t testing.TB) *engine {
	r := imagestest.New(t)
	r.Random("engine:v1")
	e := &engine{Content: r.Content("engine:v1"), size: 1 << 20}
	e.saved = func() io.Reader { return bytes.NewReader(e.archive(e.Archives)) }
	return e
}

func (e *engine) papers() papers.Papers { return papers.Papers{Manifest: e.Manifest, Config: e.Config} }

func (e *engine) image(t testing.TB) *papers.Image {
	image, err := e.papers().Check(e.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// archive is what 'docker save' makes: in folders, with links and lists between the layers.
func (e *engine) archive(layers map[string][]byte) []byte {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	put := func(h tar.Header, b []byte) {
		h.Size, h.Mode = int64(len(b)), 0o600
		_ = w.WriteHeader(&h)
		_, _ = w.Write(b)
	}
	put(tar.Header{Name: "config.json", Typeflag: tar.TypeReg}, e.Config)
	for digest, b := range layers {
		folder := strings.TrimPrefix(digest, "sha256:") + "/"
		put(tar.Header{Name: folder, Typeflag: tar.TypeDir}, nil)
		put(tar.Header{Name: folder + "VERSION", Typeflag: tar.TypeReg}, []byte("1.0"))
		put(tar.Header{Name: folder + "layer.tar", Typeflag: tar.TypeReg}, b)
		put(tar.Header{Name: "twin/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../../../etc/passwd"}, nil)
	}
	put(tar.Header{Name: "../../escaped", Typeflag: tar.TypeReg}, []byte("x"))
	_ = w.Close()
	return all.Bytes()
}

func (e *engine) SaveImage(context.Context, string) (io.ReadCloser, int64, error) {
	e.saves.Add(1)
	if e.gone {
		return nil, 0, errors.New("no such image")
	}
	return io.NopCloser(e.saved()), e.size, nil
}

func (e *engine) ImageID(context.Context, string) (string, error) {
	if e.gone {
		return "", fs.ErrNotExist
	}
	return "sha256:1", nil
}

// giver is a member that has an image, on a listener of this machine.
type giver struct {
	dir       string
	free      int64
	strangers bool // nobody is a member
	member    mesh.Member
	server    *imagecopy.Server
	spoil     func(w http.ResponseWriter, r *http.Request) bool
}

func keyring(t testing.TB, secret string) *mesh.Keyring {
	t.Helper()
	k, err := mesh.NewKeys(mesh.KeyConfig{Secret: []byte(strings.Repeat(secret, 32))})
	if err != nil {
		t.Fatal(err)
	}
	return mesh.NewKeyring(k)
}

func newServer(t testing.TB, g *giver, e *engine, keys *mesh.Keyring) *imagecopy.Server {
	t.Helper()
	kept := papers.FolderIn(t.TempDir())
	if err := kept.Keep(e.Digest, e.papers()); err != nil {
		t.Fatal(err)
	}
	return imagecopy.NewServer(imagecopy.ServerConfig{
		Verifier: mesh.NewVerifier(mesh.VerifierConfig{ID: "has", Keys: keys}), Docker: e, Papers: kept, Dir: g.dir,
		Find:   func(digest string) (string, bool) { return "sha256:1", digest == e.Digest },
		Free:   func(string) (int64, error) { return g.free, nil },
		Member: func(id string) bool { return id == "asks" && !g.strangers },
	})
}

func newGiver(t testing.TB, e *engine, keys *mesh.Keyring) *giver {
	t.Helper()
	g := &giver{dir: filepath.Join(t.TempDir(), "layers"), free: 1 << 40}
	g.server = newServer(t, g, e, keys)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.server.Run(ctx) }()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.spoil == nil || !g.spoil(w, r) {
			g.server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(g.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it ended and left %v, %v", left, err)
		}
	})
	g.member = mesh.Member{ID: "has", Name: "attic", Addr: strings.TrimPrefix(web.URL, "http://"), Version: "2.0.0"}
	return g
}

func newClient(t testing.TB, keys *mesh.Keyring) *mesh.Client {
	c := mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: "asks", Keys: keys}), Dial: (&net.Dialer{}).DialContext})
	t.Cleanup(c.Close)
	return c
}

func asker(t testing.TB, keys *mesh.Keyring, givers ...*giver) *imagecopy.Fetcher {
	c := newClient(t, keys)
	return imagecopy.NewFetcher(imagecopy.FetcherConfig{Client: c, Members: func() (all []mesh.Member) {
		for _, g := range givers {
			all = append(all, g.member)
		}
		return all
	}})
}

// fetch brings an image by way of all questions, into an archive.
func fetch(t testing.TB, f *imagecopy.Fetcher, digest string) error {
	t.Helper()
	offers, err := f.Offers(t.Context(), digest)
	if err != nil || len(offers) != 1 {
		return fmt.Errorf("%d offers, %v", len(offers), err)
	}
	image, err := offers[0].Papers.Check(digest)
	if err != nil {
		return err
	}
	parts, err := f.Parts(t.Context(), "attic", digest)
	if err != nil {
		return err
	}
	return image.Archive("x:1", parts, func(p papers.Part) (io.ReadCloser, error) {
		var all bytes.Buffer
		for at := int64(0); at < p.Size; at += images.MaxPiece {
			b, err := f.Piece(t.Context(), images.Piece{Member: "attic", Image: digest, Layer: p.Digest, From: at, Size: min(images.MaxPiece, p.Size-at)})
			if err != nil {
				return nil, err
			}
			all.Write(b)
		}
		return io.NopCloser(&all), nil
	}, io.Discard)
}
