package imagecopy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/imagecopy"
	"viiwork/appliance/mesh"
	"viiwork/images"
)

// TestImageGoesToWhoAsks, as archives or as the registry packed them, and is saved once for all who ask.
func TestImageGoesToWhoAsks(t *testing.T) {
	keys := keyring(t, "k")
	for _, packed := range []bool{false, true} {
		e := newEngine(t)
		if packed {
			e.saved = func() io.Reader { return bytes.NewReader(e.archive(e.Packed)) }
		}
		g := newGiver(t, e, keys)
		for range 2 {
			if err := fetch(t, asker(t, keys, g), e.Digest); err != nil {
				t.Fatal(err)
			}
		}
		if n := e.saves.Load(); n != 1 {
			t.Errorf("saved %d times", n)
		}
		files, _ := filepath.Glob(filepath.Join(g.dir, "*", "*"))
		if len(files) != 3 {
			t.Errorf("there lie %v", files)
		}
	}
}

// TestWhatDockerSavesIsHeldAgainstThePapers before it is given away, and leaves nothing where it is something else.
func TestWhatDockerSavesIsHeldAgainstThePapers(t *testing.T) {
	keys := keyring(t, "k")
	for name, c := range map[string]struct {
		spoil func(e *engine, g *giver)
		want  string
	}{
		"another layer": {func(e *engine, _ *giver) {
			e.saved = func() io.Reader {
				other := map[string][]byte{"sha256:1": []byte("something else")}
				for digest, b := range e.Archives {
					if len(other) < 3 {
						other[digest] = b
					}
				}
				return bytes.NewReader(e.archive(other))
			}
		}, "other bytes than were fetched"},
		"cut": {func(e *engine, _ *giver) {
			e.saved = func() io.Reader { return io.LimitReader(bytes.NewReader(e.archive(e.Archives)), 300<<10) }
		}, "stopped giving"},
		"nothing":       {func(e *engine, _ *giver) { e.saved = func() io.Reader { return strings.NewReader("") } }, "other bytes than were fetched"},
		"no room":       {func(_ *engine, g *giver) { g.free = 1 << 30 }, "no room"},
		"room too soon": {func(_ *engine, g *giver) { g.free = 1<<30 + 1<<20 /* less than the archive has */ }, "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			g := newGiver(t, e, keys)
			if c.spoil(e, g); name == "room too soon" {
				e.size = 1
				e.saved = func() io.Reader {
					return bytes.NewReader(e.archive(map[string][]byte{"sha256:1": make([]byte, 2<<20)}))
				}
			}
			if err := fetch(t, asker(t, keys, g), e.Digest); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if files, _ := filepath.Glob(filepath.Join(g.dir, "*")); len(files) > 0 {
				t.Errorf("left %v", files)
			}
			e.saved, g.free, e.size = func() io.Reader { return bytes.NewReader(e.archive(e.Archives)) }, 1<<40, 1<<20
			if err := fetch(t, asker(t, keys, g), e.Digest); err != nil {
				t.Errorf("once it is mended: %v", err)
			}
		})
	}
}

func TestNothingIsGivenToStrangers(t *testing.T) {
	keys := keyring(t, "k")
	e := newEngine(t)
	g := newGiver(t, e, keys)
	if err := fetch(t, asker(t, keyring(t, "x"), g), e.Digest); err == nil {
		t.Error("it was given to somebody with another secret")
	}
	g.strangers = true
	if err := fetch(t, asker(t, keys, g), e.Digest); err == nil {
		t.Error("it was given to somebody who is no member")
	}
	for _, path := range []string{imagecopy.PapersPath, imagecopy.PartsPath, imagecopy.PiecePath} {
		answer, err := http.Get("http://" + g.member.Addr + path + "?digest=" + e.Digest)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s unsigned: %d", path, answer.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if e.saves.Load() > 0 {
		t.Error("it was saved for strangers")
	}
}

// TestQuestionsAreBounded: of what members ask, nothing leads to other files, other images or more memory.
func TestQuestionsAreBounded(t *testing.T) {
	keys := keyring(t, "k")
	e := newEngine(t)
	g := newGiver(t, e, keys)
	parts, err := asker(t, keys, g).Parts(t.Context(), "attic", e.Digest)
	if err != nil {
		t.Fatal(err)
	}
	layer := "&layer=" + parts[0].Digest
	client := newClient(t, keys)
	for _, c := range []struct {
		path, query string
		want        int
	}{
		{imagecopy.PapersPath, "digest=" + e.Digest, 200},
		{imagecopy.PapersPath, "digest=" + parts[0].Digest, 404},
		{imagecopy.PapersPath, "digest=../images", 404},
		{imagecopy.PapersPath, "", 404},
		{imagecopy.PartsPath, "digest=sha256:1", 404},
		{imagecopy.PiecePath, "digest=" + e.Digest + layer + "&from=0&size=100", 200},
		{imagecopy.PiecePath, "digest=" + e.Digest + layer + "&from=99999999&size=100", 404},
		{imagecopy.PiecePath, "digest=" + e.Digest + layer + "&from=-1&size=100", 400},
		{imagecopy.PiecePath, "digest=" + e.Digest + layer + "&from=0&size=1048577", 400},
		{imagecopy.PiecePath, "digest=" + e.Digest + layer + "&from=0&size=0", 400},
		{imagecopy.PiecePath, "digest=" + e.Digest + layer, 400},
		{imagecopy.PiecePath, "digest=" + e.Digest + "&layer=../../images.json&from=0&size=10", 404},
		{imagecopy.PiecePath, "digest=" + e.Digest + "&layer=&from=0&size=10", 404},
		{imagecopy.PiecePath, "digest=.." + layer + "&from=0&size=10", 404},
	} {
		values, err := http.NewRequest(http.MethodGet, "/?"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(t.Context(), g.member, c.path, values.URL.Query())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.path, c.query, resp.StatusCode, c.want)
		}
	}
}

// TestManyAskAtOnce: more than it has time for, and all get it, of one save.
func TestManyAskAtOnce(t *testing.T) {
	keys := keyring(t, "k")
	e := newEngine(t)
	g := newGiver(t, e, keys)
	ended := make(chan error)
	for range 6 {
		f := asker(t, keys, g)
		go func() { ended <- fetch(t, f, e.Digest) }()
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
	if n := e.saves.Load(); n != 1 {
		t.Errorf("saved %d times", n)
	}
}

// TestLaidOutImageGoesWhenNobodyAsks any more, and what a run left behind with the next one.
func TestLaidOutImageGoesWhenNobodyAsks(t *testing.T) {
	keys := keyring(t, "k")
	e := newEngine(t)
	g := &giver{dir: filepath.Join(t.TempDir(), "layers"), free: 1 << 40}
	leftover := filepath.Join(g.dir, "left", "behind")
	if err := os.MkdirAll(leftover, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, g, e, keys)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = server.Run(ctx) }()
		signer := mesh.NewSigner(mesh.SignerConfig{ID: "asks", Keys: keys})
		ask := func(path string) *httptest.ResponseRecorder {
			req := httptest.NewRequest(http.MethodGet, "http://has"+path+"?digest="+e.Digest, nil)
			signer.Sign(req, "has", sha256.Sum256(nil))
			w := httptest.NewRecorder()
			server.ServeHTTP(w, req)
			return w
		}
		lie := func() int { files, _ := filepath.Glob(filepath.Join(g.dir, "*", "*")); return len(files) }
		synctest.Wait()
		if n := lie(); n != 0 {
			t.Errorf("%d files of the run before", n)
		}
		for range 30 { // for half an hour somebody does
			if w := ask(imagecopy.PartsPath); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if n := lie(); n != 3 || e.saves.Load() != 1 {
			t.Errorf("%d files after %d saves", n, e.saves.Load())
		}
		time.Sleep(12 * time.Minute)
		synctest.Wait()
		if n := lie(); n != 0 {
			t.Errorf("%d files when nobody asks", n)
		}
		stop()
		synctest.Wait()
	})
}

func TestMemberThatIsNoneIsNotAsked(t *testing.T) {
	f := asker(t, keyring(t, "k"))
	if _, err := f.Parts(t.Context(), "nobody", "sha256:1"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
	if offers, err := f.Offers(t.Context(), "sha256:1"); err != nil || len(offers) > 0 {
		t.Errorf("%v %v", offers, err)
	}
}

// TestAnswerThatIsNotTheMembersIsRefused, and one without end is not read.
func TestAnswerThatIsNotTheMembersIsRefused(t *testing.T) {
	keys := keyring(t, "k")
	e := newEngine(t)
	g := newGiver(t, e, keys)
	g.spoil = func(w http.ResponseWriter, r *http.Request) bool {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		return true
	}
	f := asker(t, keys, g)
	if _, err := f.Piece(t.Context(), images.Piece{Member: "attic", Image: e.Digest, Layer: e.Digest, Size: 100}); err == nil {
		t.Error("it was taken")
	}
	if offers, _ := f.Offers(t.Context(), e.Digest); len(offers) > 0 {
		t.Error("it was taken")
	}
}

// FuzzAnswers: what a member signs may be anything.
func FuzzAnswers(f *testing.F) {
	e := newEngine(f)
	good, _ := json.Marshal(e.papers())
	f.Add(good)
	f.Add([]byte(`{"parts":[{"digest":"sha256:x","size":-1}],"bytes":-5}`))
	f.Add([]byte(`{"manifest":"AA==","config":null}`))
	keys := keyring(f, "k")
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: "has", Keys: keys})
	g := newGiver(f, e, keys)
	fetcher := asker(f, keys, g)
	f.Fuzz(func(t *testing.T, text []byte) {
		g.spoil = func(w http.ResponseWriter, r *http.Request) bool {
			peer, err := verifier.Check(r)
			if err != nil {
				return false
			}
			mesh.WriteSigned(w, r, peer, text)
			return true
		}
		offers, err := fetcher.Offers(t.Context(), e.Digest)
		if err != nil || len(offers) > 1 {
			t.Errorf("%d offers, %v", len(offers), err)
		}
		for _, o := range offers {
			if image, err := o.Papers.Check(e.Digest); err == nil && (o.Member != "attic" || !bytes.Equal(o.Papers.Config, e.Config) || image.Config == "") {
				t.Errorf("an offer of %s passed", o.Member)
			}
		}
		if b, err := fetcher.Piece(t.Context(), images.Piece{Member: "attic", Image: e.Digest, Size: 8}); err == nil && len(b) > 8 {
			t.Errorf("%d bytes", len(b))
		}
	})
}

// FuzzSaved: whatever an archive holds, nothing but layers of the image stays, and nothing lies outside of the folder.
func FuzzSaved(f *testing.F) {
	e := newEngine(f)
	f.Add(e.archive(e.Archives)[:4096])
	small := map[string][]byte{"sha256:1": []byte("x")}
	f.Add(e.archive(small))
	image := e.image(f)
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := filepath.Join(t.TempDir(), "a", "layers")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		sizes, _ := imagecopy.Unpack(dir, image, bytes.NewReader(archive))
		for digest := range sizes {
			if !image.Wants(digest) {
				t.Errorf("%s stays", digest)
			}
		}
		for _, folder := range []string{dir, filepath.Dir(dir)} {
			if files, err := os.ReadDir(folder); err != nil || len(files) != len(sizes) && folder == dir || folder != dir && len(files) != 1 {
				t.Errorf("%v in %s, %v", files, folder, err)
			}
		}
	})
}
