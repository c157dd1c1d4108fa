package mesh_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// gift is a Giver of n02 with two places, for n01 alone.
type gift struct {
	*mesh.Giver
	t       testing.TB
	signer  *mesh.Signer
	answers atomic.Int32 // begun
	answer  func(a *mesh.Asked) error
}

func newGift(t testing.TB, k *mesh.Keyring) *gift {
	g := &gift{t: t, signer: mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: k})}
	g.answer = func(a *mesh.Asked) error { a.Give([]byte("bytes")); return nil }
	g.Giver = mesh.NewGiver(mesh.GiveConfig{
		Verifier: mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k}), Member: func(id string) bool { return id == "n01" },
		Only: "for friends", AtOnce: 2,
		Answer: func(a *mesh.Asked) error { g.answers.Add(1); return g.answer(a) },
	})
	return g
}

// question is one by who signs; nil = nobody.
func question(method string, by *mesh.Signer) *http.Request {
	r := httptest.NewRequest(method, "http://n02/piece?from=0&size=5", nil)
	if by != nil {
		by.Sign(r, "n02", sha256.Sum256(nil))
	}
	return r
}

// asks tells the status and the code of an answer.
func (g *gift) asks(r *http.Request) (status int, code string, head http.Header) {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	var told struct{ Error struct{ Code string } }
	_ = json.Unmarshal(w.Body.Bytes(), &told)
	return w.Code, told.Error.Code, w.Header()
}

func TestOnlyMembersAreGivenAnything(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	g := newGift(t, k)
	replayed := question("GET", g.signer)
	if status, _, _ := g.asks(replayed); status != http.StatusOK || g.answers.Swap(0) != 1 {
		t.Fatalf("a member: %d", status)
	}
	elsewhere := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: keys(t, mesh.KeyConfig{Secret: []byte(strings.Repeat("x", 32))})})
	changed := question("GET", g.signer)
	changed.URL.RawQuery = "from=0&size=6"
	other := question("GET", nil)
	g.signer.Sign(other, "n03", sha256.Sum256(nil))
	for name, c := range map[string]struct {
		r      *http.Request
		status int
		code   string
	}{
		"unsigned":         {question("GET", nil), 403, "unsigned"},
		"of another mesh":  {question("GET", elsewhere), 403, "bad_signature"},
		"changed":          {changed, 403, "bad_signature"},
		"for another node": {other, 403, "wrong_receiver"},
		"replayed":         {replayed, 403, "replayed"},
		"of no member":     {question("GET", mesh.NewSigner(mesh.SignerConfig{ID: "n09", Keys: k})), 403, mesh.CodeNoMember},
		"with POST":        {question("POST", g.signer), 405, "method_not_allowed"},
	} {
		if status, code, _ := g.asks(c.r); status != c.status || code != c.code {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}
	if n := g.answers.Load(); n > 0 {
		t.Errorf("%d were answered", n)
	}
}

// TestNoIsReadAsItWasMeant by who asks, from its status to its words, and what it was not meant to tell stays here.
func TestNoIsReadAsItWasMeant(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	g := newGift(t, k)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	c := client(t, mesh.SignerConfig{ID: "n01", Keys: k})
	to := member(2)
	to.Addr = server.Listener.Addr().String()
	ask := func() ([]byte, error) {
		resp, err := c.Get(t.Context(), to, "/piece", url.Values{"from": {"0"}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return c.ReadGiven(resp, 100)
	}
	if b, err := ask(); err != nil || string(b) != "bytes" {
		t.Fatalf("%q, %v", b, err)
	}
	for name, c := range map[string]struct {
		err  error
		want mesh.No
		is   error
	}{
		"a no":            {&mesh.No{Status: 409, Code: "changed", Message: "it is another one now"}, mesh.No{Status: 409, Code: "changed", Message: "it is another one now"}, nil},
		"in a wrap":       {errors.Join(io.ErrNoProgress, &mesh.No{Status: 409, Code: "c", Message: "m"}), mesh.No{Status: 409, Code: "c", Message: "m"}, nil},
		"nothing there":   {&mesh.No{Status: 404, Code: "none", Message: "it has none"}, mesh.No{Status: 404, Code: "none", Message: "it has none"}, fs.ErrNotExist},
		"busy":            {mesh.ErrBusy, *mesh.ErrBusy, mesh.ErrBusy},
		"a fault":         {errors.New("reading /home/ann/secret: broken"), mesh.No{Status: 500, Code: "failed", Message: "it could not answer"}, nil},
		"without words":   {&mesh.No{Status: 400}, mesh.No{Status: 400, Message: "it answers 400"}, nil},
		"of many words":   {&mesh.No{Status: 400, Message: strings.Repeat("€", 200)}, mesh.No{Status: 400, Message: strings.Repeat("€", 100) + "…"}, nil},
		"for a terminal":  {&mesh.No{Status: 400, Message: "a\x1b[2J\nb"}, mesh.No{Status: 400, Message: "a·[2J·b"}, nil},
		"longer than any": {&mesh.No{Status: 400, Message: strings.Repeat("m", 1<<20)}, mesh.No{Status: 400, Message: "it answers 400"}, nil},
	} {
		g.answer = func(*mesh.Asked) error { return c.err }
		_, err := ask()
		var no *mesh.No
		if !errors.As(err, &no) || *no != c.want || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %+v", name, err)
		}
		if errors.Is(err, fs.ErrNotExist) != (c.is == fs.ErrNotExist) || errors.Is(err, mesh.ErrBusy) != (c.is == mesh.ErrBusy) {
			t.Errorf("%s is taken for another one", name)
		}
	}
	g.answer = func(a *mesh.Asked) error { a.Give(make([]byte, 101)); return nil }
	if _, err := ask(); !errors.Is(err, mesh.ErrForgedAnswer) {
		t.Errorf("more than was asked for: %v", err)
	}
}

// TestPieceIsNoMoreThanMayBeAskedFor.
func TestPieceIsNoMoreThanMayBeAskedFor(t *testing.T) {
	for query, want := range map[string]bool{
		"from=0&size=1": true, "from=9223372036854775807&size=8": true, "from=0&size=9": false, "from=-1&size=1": false, "from=0&size=0": false,
		"from=0&size=-1": false, "from=0": false, "size=1": false, "": false, "from=0x1&size=1": false, "from=9223372036854775808&size=1": false,
	} {
		a := mesh.Asked{Request: httptest.NewRequest(http.MethodGet, "/?"+query, nil)}
		if from, size, ok := a.Piece(8); ok != want {
			t.Errorf("%s: %d %d %v", query, from, size, ok)
		}
	}
}

// TestSmallAnswerThatNobodyReadsIsGivenUp, though it goes only after all is done for it.
func TestSmallAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGift(t, keys(t, mesh.KeyConfig{Secret: secret}))
		web := newNetwork()
		server := &http.Server{Handler: g}
		l := web.listen(member(2).Addr)
		go func() { _ = server.Serve(l) }()
		conn, err := web.DialContext(t.Context(), "tcp", member(2).Addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := question("GET", g.signer).Write(conn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute + time.Second)
		if b, err := io.ReadAll(conn); len(b) > 0 || err != nil || g.answers.Load() != 1 {
			t.Errorf("%q, %v", b, err)
		}
		conn.Close()
		_ = server.Close()
	})
}

// TestPlaceIsKeptUntilTheBytesHaveGone: who reads slowly has its place, so that no more answers than these are in memory, and
// loses it when its time is over. Others wait for their turn for a few seconds, and then are told that it is busy.
func TestPlaceIsKeptUntilTheBytesHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keys(t, mesh.KeyConfig{Secret: secret})
		g := newGift(t, k)
		g.answer = func(a *mesh.Asked) error { a.Give(make([]byte, 1<<20)); return nil }
		web := newNetwork()
		l := web.listen(member(2).Addr)
		server := &http.Server{Handler: g}
		go func() { _ = server.Serve(l) }()
		c := mesh.NewClient(mesh.ClientConfig{Signer: g.signer, Dial: web.DialContext})
		ask := func(ctx context.Context) *http.Response {
			resp, err := c.Get(ctx, member(2), "/piece", nil)
			if err != nil {
				t.Error(err)
				return nil
			}
			return resp
		}
		slow := []*http.Response{ask(t.Context()), ask(t.Context())} // and nobody reads them
		began := time.Now()
		if resp := ask(t.Context()); resp.StatusCode != http.StatusTooManyRequests || time.Since(began) < time.Second || time.Since(began) > 8*time.Second {
			t.Errorf("%d after %v, with all places taken", resp.StatusCode, time.Since(began))
		} else {
			resp.Body.Close()
		}
		if n := g.answers.Load(); n != 2 {
			t.Errorf("%d answers at one time", n)
		}

		came := make(chan int, 1)
		go func() {
			resp := ask(t.Context())
			came <- resp.StatusCode
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}()
		time.Sleep(time.Second)
		if _, err := io.Copy(io.Discard, slow[0].Body); err != nil { // one reads on
			t.Error(err)
		}
		if status := <-came; status != http.StatusOK {
			t.Errorf("%d for who has waited for a place", status)
		}

		time.Sleep(2 * time.Minute) // the other one never does
		synctest.Wait()
		for range 3 {
			resp := ask(t.Context())
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%d, %v, when the slow one's time is over", resp.StatusCode, err)
			}
			resp.Body.Close()
		}
		g.answer = func(*mesh.Asked) error { return &mesh.No{Status: 409} }
		dialled := web.dialled(member(2).Addr)
		for range 6 { // an answer's time is none of the next one's on that connection
			time.Sleep(25 * time.Second)
			resp := ask(t.Context())
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if more := web.dialled(member(2).Addr) - dialled; resp.StatusCode != 409 || more > 0 {
				t.Errorf("%d after %d more connections", resp.StatusCode, more)
			}
		}
		if _, err := io.Copy(io.Discard, slow[1].Body); err == nil {
			t.Error("an answer was waited for without end")
		}
		for _, resp := range slow {
			resp.Body.Close()
		}
		c.Close()
		_ = server.Close()
	})
}
