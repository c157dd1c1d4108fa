package releases_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/appliance/mesh"
	"viiwork/appliance/releases"
	"viiwork/update"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content is bytes that no other seed gives, and their digest.
func content(seed byte, size int) (b []byte, digest string) {
	b = make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	sum := sha256.Sum256(b)
	return b, "sha256:" + hex.EncodeToString(sum[:])
}

// giver is a member with a shelf, on a listener of this machine.
type giver struct {
	state, id string
	shelf     *update.Shelf
	member    mesh.Member
	strangers bool // nobody is a member
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

func newGiver(t testing.TB, id string, keys *mesh.Keyring) *giver {
	g := &giver{state: t.TempDir(), id: id}
	g.shelf = update.OpenShelf(g.state)
	server := releases.NewServer(releases.ServerConfig{
		Shelf: g.shelf, Verifier: mesh.NewVerifier(mesh.VerifierConfig{ID: id, Keys: keys}),
		Member: func(id string) bool { return id == "asks" && !g.strangers },
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.spoil == nil || !g.spoil(w, r) {
			server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	g.member = mesh.Member{ID: id, Name: id, Addr: strings.TrimPrefix(web.URL, "http://"), Version: "2.0.0"}
	return g
}

func clientOf(t testing.TB, keys *mesh.Keyring) *mesh.Client {
	c := mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: "asks", Keys: keys}), Dial: (&net.Dialer{}).DialContext})
	t.Cleanup(c.Close)
	return c
}

// asker asks these givers.
func asker(t testing.TB, keys *mesh.Keyring, givers ...*giver) (*releases.Fetcher, *update.Shelf) {
	client := clientOf(t, keys)
	shelf := update.OpenShelf(t.TempDir())
	return releases.NewFetcher(releases.FetcherConfig{Shelf: shelf, Client: client, Members: func() (all []mesh.Member) {
		for _, g := range givers {
			all = append(all, g.member)
		}
		return all
	}}), shelf
}

func (g *giver) put(t testing.TB, b []byte, digest string) {
	t.Helper()
	if err := g.shelf.Put(digest, int64(len(b)), bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
}

func holds(t testing.TB, s *update.Shelf, b []byte, digest string) {
	t.Helper()
	f, err := s.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes in place of %d, %v", len(got), len(b), err)
	}
}

func TestPartComesFromWhoeverHasIt(t *testing.T) {
	keys := keyring(t, "k")
	b, digest := content(1, 3<<20+17)
	empty, has := newGiver(t, "empty", keys), newGiver(t, "has", keys)
	has.put(t, b, digest)
	f, shelf := asker(t, keys, empty, has)
	if err := f.Fetch(t.Context(), digest, int64(len(b))); err != nil {
		t.Fatal(err)
	}
	holds(t, shelf, b, digest)
	_, other := content(2, 10)
	if err := f.Fetch(t.Context(), other, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what nobody has: %v", err)
	}
}

// TestWrongPartIsRefusedAndTheNextMemberAsked whatever is wrong with it.
func TestWrongPartIsRefusedAndTheNextMemberAsked(t *testing.T) {
	keys := keyring(t, "k")
	b, digest := content(1, 1<<20+5)
	for name, spoil := range map[string]func(*giver) func(http.ResponseWriter, *http.Request) bool{
		"other bytes on its disk": func(g *giver) func(http.ResponseWriter, *http.Request) bool {
			g.put(t, b, digest)
			path := filepath.Join(g.state, "releases", strings.TrimPrefix(digest, "sha256:"))
			if err := os.WriteFile(path, bytes.Repeat([]byte{1}, len(b)), 0o600); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		"a shorter file": func(g *giver) func(http.ResponseWriter, *http.Request) bool {
			g.put(t, b, digest)
			if err := os.Truncate(filepath.Join(g.state, "releases", strings.TrimPrefix(digest, "sha256:")), 1<<20); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		"an answer of somebody in between": func(*giver) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool { _, _ = w.Write(b[:1<<20]); return true }
		},
		"an answer without end": func(*giver) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				for r.Context().Err() == nil {
					if _, err := w.Write(b); err != nil {
						break
					}
				}
				return true
			}
		},
		"no": func(*giver) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(500); return true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			liar, has := newGiver(t, "liar", keys), newGiver(t, "has", keys)
			liar.spoil = spoil(liar)
			f, shelf := asker(t, keys, liar)
			if err := f.Fetch(t.Context(), digest, int64(len(b))); err == nil {
				t.Error("a wrong part was taken")
			}
			if _, err := shelf.Open(digest); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something is left of it: %v", err)
			}
			has.put(t, b, digest)
			f, shelf = asker(t, keys, liar, has)
			if err := f.Fetch(t.Context(), digest, int64(len(b))); err != nil {
				t.Fatal(err)
			}
			holds(t, shelf, b, digest)
		})
	}
}

func TestNothingIsGivenToStrangers(t *testing.T) {
	keys := keyring(t, "k")
	b, digest := content(1, 100)
	g := newGiver(t, "has", keys)
	g.put(t, b, digest)
	f, _ := asker(t, keyring(t, "x"), g)
	if err := f.Fetch(t.Context(), digest, 100); err == nil {
		t.Error("it was given to somebody with another secret")
	}
	g.strangers = true
	f, _ = asker(t, keys, g)
	if err := f.Fetch(t.Context(), digest, 100); err == nil {
		t.Error("it was given to somebody who is no member")
	}
	answer, err := http.Get("http://" + g.member.Addr + releases.PiecePath + "?from=0&size=100&digest=" + digest)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("unsigned: %d", answer.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestQuestionsAreBounded: of what members ask, nothing leads to other files or to more memory.
func TestQuestionsAreBounded(t *testing.T) {
	keys := keyring(t, "k")
	g := newGiver(t, "has", keys)
	b, digest := content(1, 100)
	g.put(t, b, digest)
	client := clientOf(t, keys)
	for query, want := range map[string]int{
		"digest=" + digest + "&from=0&size=100":                         200,
		"digest=" + digest + "&from=90&size=100":                        200,
		"digest=" + digest + "&from=100&size=100":                       404,
		"digest=" + digest + "&from=-1&size=100":                        400,
		"digest=" + digest + "&from=0&size=1048577":                     400,
		"digest=" + digest + "&from=0&size=0":                           400,
		"digest=" + digest:                                              400,
		"digest=../list.json&from=0&size=10":                            404,
		"digest=sha256:../list.json&from=0&size=10":                     404,
		"digest=sha256%3A" + strings.Repeat("0", 64) + "&from=0&size=1": 404,
	} {
		values, err := http.NewRequest(http.MethodGet, "/?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(t.Context(), g.member, releases.PiecePath, values.URL.Query())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", query, resp.StatusCode, want)
		}
	}
}

// TestManyAskAtOnce: more than it has time for, and all get it.
func TestManyAskAtOnce(t *testing.T) {
	keys := keyring(t, "k")
	g := newGiver(t, "has", keys)
	b, digest := content(1, 2<<20)
	g.put(t, b, digest)
	ended := make(chan error)
	for range 6 {
		f, _ := asker(t, keys, g)
		go func() { ended <- f.Fetch(t.Context(), digest, int64(len(b))) }()
	}
	for range 6 {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
	}
}

func FuzzOffers(f *testing.F) {
	f.Add([]byte(`{"releases":[{"version":"v1","digest":"sha256:x","index":"AA==","proofs":["AA=="]}]}`))
	f.Add([]byte(`{"releases":null}`))
	f.Add([]byte(`[`))
	keys := keyring(f, "k")
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: "has", Keys: keys})
	g := newGiver(f, "has", keys)
	fetcher, _ := asker(f, keys, g)
	f.Fuzz(func(t *testing.T, text []byte) {
		g.spoil = func(w http.ResponseWriter, r *http.Request) bool {
			peer, err := verifier.Check(r)
			if err != nil {
				return false
			}
			mesh.WriteSigned(w, r, peer, text)
			return true
		}
		all, err := fetcher.Offers(t.Context())
		if err != nil || len(all) > 8 {
			t.Errorf("%d offers, %v", len(all), err)
		}
		for _, o := range all {
			if o.From != "has" {
				t.Error(fmt.Sprint("an offer of ", o.From))
			}
		}
	})
}
