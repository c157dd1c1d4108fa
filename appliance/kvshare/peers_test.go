package kvshare_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// member is one of the mesh that other nodes ask.
type member struct {
	mesh.Member
	client *transfer.Client
}

// newMember answers out of a source, in a way that wrap changes.
func newMember(t testing.TB, id string, source transfer.Source, wrap func(http.Handler) http.Handler) *member {
	t.Helper()
	keys, err := mesh.NewKeys(mesh.KeyConfig{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	ring := mesh.NewKeyring(keys)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{Member: mesh.Member{ID: id, Name: id, Version: "2.0.0", Addr: l.Addr().String()}}
	fellows := mesh.NewClient(mesh.ClientConfig{Signer: mesh.NewSigner(mesh.SignerConfig{ID: id, Keys: ring}), Dial: new(net.Dialer).DialContext})
	if m.client, err = transfer.NewClient(transfer.Config{Mesh: fellows}); err != nil {
		t.Fatal(err)
	}
	var answers http.Handler = transfer.NewServer(source, mesh.NewVerifier(mesh.VerifierConfig{ID: id, Keys: ring}), m.client)
	if wrap != nil {
		answers = wrap(answers)
	}
	web := &http.Server{Handler: answers}
	var wg sync.WaitGroup
	wg.Go(func() { _ = web.Serve(l) })
	t.Cleanup(func() {
		_ = web.Close()
		m.client.Close()
		fellows.Close()
		wg.Wait()
	})
	return m
}

// joins makes the host one of the mesh.
func (h *host) joins(id string) *member {
	h.Helper()
	m := newMember(h, id, h.Share, nil)
	if h.Share == nil {
		return m // it moves nothing
	}
	h.Join(kvshare.Net{ID: id, Client: m.client, Member: func(string) (mesh.Member, bool) { return mesh.Member{}, false }})
	return m
}

// of is a fetch from a member.
func (c *talk) of(m *member) *kvshare.Fetch {
	f := c.own()
	f.Member = m.Member
	return f
}

// at is the conversation as another node has it in hand.
func (c *talk) at() *talk { return c.fork(c.session) }

func TestAConversationTakesItsCacheAlong(t *testing.T) {
	t.Parallel()
	home, away := newHost(t, plan{}), newHost(t, plan{})
	h, a := home.joins("h"), away.joins("a")
	c := newTalk("one", 1000)
	home.turn(c)
	for range 3 {
		held := c.held
		if away.turn(c, c.of(h)); c.moved != "pull" || !c.warm(held) {
			t.Errorf("away it came by %q with %d of %d tokens", c.moved, c.cached, held)
		}
		held = c.held
		if home.turn(c, c.of(a)); c.moved != "pull" || !c.warm(held) {
			t.Errorf("at home it came by %q with %d of %d tokens", c.moved, c.cached, held)
		}
	}
	for _, host := range []*host{home, away} {
		host.isTidy()
		if k := host.Report("n"); k.Store.Replicas != 1 || len(k.Pairs) != 1 || k.Pairs[0].Proved != 3 || k.Pairs[0].Failed != 0 {
			t.Errorf("it tells %+v", k)
		}
	}
}

// TestTwoNodesTakeOneConversationAtOnce: both have it, and its home was stopped for one save.
func TestTwoNodesTakeOneConversationAtOnce(t *testing.T) {
	t.Parallel()
	home, away := newHost(t, plan{args: slow}), []*host{newHost(t, plan{args: slow}), newHost(t, plan{args: slow})}
	h := home.joins("h")
	c := newTalk("one", 1000)
	home.turn(c)
	held := c.held
	var wg sync.WaitGroup
	for i, a := range away {
		a.joins(string(rune('a' + i)))
		c, f := c.at(), c.of(h)
		c.says("> ")
		wg.Go(func() {
			r, err := a.begin(context.Background(), c, 8, f)
			if err != nil {
				t.Error(err)
				return
			}
			r.end()
			if c.moved != "pull" || !c.warm(held) {
				t.Errorf("it came by %q with %d of %d tokens\n%s", c.moved, c.cached, held, a.log)
			}
		})
	}
	wg.Wait()
	if k := home.Report("n"); k.Models[0].Saves != 1 {
		t.Errorf("%d saves for one state", k.Models[0].Saves)
	}
	for _, host := range append(away, home) {
		host.isTidy()
	}
}

// liar is a source that changes what it tells.
type liar struct {
	transfer.Source
	manifest func(*transfer.State) error
	chunk    func([]byte) ([]byte, error)
}

func (l *liar) Manifest(ctx context.Context, link string) (transfer.State, error) {
	s, err := l.Source.Manifest(ctx, link)
	if err == nil && l.manifest != nil {
		err = l.manifest(&s)
	}
	return s, err
}

func (l *liar) Chunk(sum replica.Sum, buf []byte) ([]byte, error) {
	b, err := l.Source.Chunk(sum, buf)
	if err == nil && l.chunk != nil {
		b, err = l.chunk(b)
	}
	return b, err
}

// breaksOff ends answers of chunks in the middle of one.
func breaksOff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == transfer.ChunksPath {
			w = &short{ResponseWriter: w, left: 5000}
		}
		next.ServeHTTP(w, r)
	})
}

type short struct {
	http.ResponseWriter
	left int
}

func (s *short) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left < 0 {
		_, _ = s.ResponseWriter.Write(b[:len(b)/2])
		panic(http.ErrAbortHandler)
	}
	return s.ResponseWriter.Write(b)
}

// silent answers nothing until the asker has left.
func silent(http.Handler) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

// TestASourceThatLiesCostsACacheAndNoAnswer, and nothing unproved reaches the engine.
func TestASourceThatLiesCostsACacheAndNoAnswer(t *testing.T) {
	t.Parallel()
	home, away := newHost(t, plan{}), newHost(t, plan{})
	away.joins("a")
	c := newTalk("one", 2000)
	home.turn(c)
	home.saved(c)
	another := newTalk("nine", 2000)
	home.turn(another)
	home.saved(another)
	foreign, err := home.Manifest(context.Background(), fmt.Sprintf("%x", another.chain[0]))
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]struct {
		liar
		wrap   func(http.Handler) http.Handler
		within time.Duration
	}{
		"has nothing":            {liar: liar{manifest: func(*transfer.State) error { return errors.New("gone") }}},
		"another model":          {liar: liar{manifest: func(s *transfer.State) error { s.Manifest.Key.Model = "v1:4567"; return nil }}},
		"another build":          {liar: liar{manifest: func(s *transfer.State) error { s.Manifest.Key.Build += "x"; return nil }}},
		"a path for a name":      {liar: liar{manifest: func(s *transfer.State) error { s.Name = "../../../../../../../../etc/pass"; return nil }}},
		"other bytes":            {liar: liar{chunk: func(b []byte) ([]byte, error) { return []byte(strings.Repeat("x", len(b))), nil }}},
		"no chunks":              {liar: liar{chunk: func([]byte) ([]byte, error) { return nil, errors.New("gone") }}},
		"stops within a chunk":   {wrap: breaksOff},
		"never says anything":    {wrap: silent, within: 200 * time.Millisecond},
		"another conversation's": {liar: liar{manifest: func(s *transfer.State) error { *s = foreign; return nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			l.Source = home.Share
			m := newMember(t, "h", &l.liar, l.wrap)
			c := c.at()
			f := c.of(m)
			if l.within > 0 {
				f.Within = l.within
			}
			if away.turn(c, f); c.cached > 100 {
				t.Errorf("it came by %q with %d tokens", c.moved, c.cached)
			}
			away.isTidy()
			away.turn(newTalk("two", 700)) // and the slots go to others
			away.turn(newTalk("six", 800))
		})
	}
	if k := away.Report("n"); !k.Models[0].Enabled || away.log.count("did not take") > 0 {
		t.Errorf("lies of others reach the engine, or are held against it: %+v", k)
	}
}

// TestWhoLeavesWhileItsCacheIsPulled leaves nothing behind on either side.
func TestWhoLeavesWhileItsCacheIsPulled(t *testing.T) {
	t.Parallel()
	home, away := newHost(t, plan{args: slower}), newHost(t, plan{args: slower})
	h := home.joins("h")
	away.joins("a")
	c := newTalk("one", 1000)
	home.turn(c)
	held := c.held
	gone := c.at()
	gone.says("> ")
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		r, err := away.begin(ctx, gone, 8, c.of(h))
		if err == nil {
			r.drop()
		}
		done <- err
	}()
	home.acting(".kv")
	leave()
	if err := <-done; err == nil {
		t.Error("the one who left has an answer")
	}
	away.isTidy()
	home.isTidy()
	if away.turn(c, c.of(h)); c.moved != "pull" || !c.warm(held) {
		t.Errorf("later it came by %q with %d of %d tokens\n%s", c.moved, c.cached, held, away.log)
	}
}
