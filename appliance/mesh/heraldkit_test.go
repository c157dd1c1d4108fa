package mesh_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// town is some nodes with aliases, on a network in memory that can be cut in two, with a gossip that can be deaf.
type town struct {
	t     testing.TB
	nodes []*townsman

	mu   sync.Mutex
	side map[string]int // who is on which side of a cut
	deaf bool           // messages are lost
	said int            // messages
}

type townsman struct {
	*node
	aliases *mesh.Aliases
	herald  *mesh.Herald
	asked   atomic.Int64 // for its table
	sent    atomic.Int64 // tables
	answer  atomic.Pointer[http.HandlerFunc]
}

// newTown starts n nodes that have met.
func newTown(t testing.TB, n int) *town {
	w, web := &town{t: t, side: map[string]int{}}, newNetwork()
	k := keys(t, mesh.KeyConfig{Secret: secret})
	for i := range n {
		m := member(i + 1)
		man := &townsman{aliases: mesh.NewAliases(mesh.AliasesConfig{})}
		man.aliases.Load()
		man.aliases.Join(m.ID)
		man.node = newNode(t, m, k, func(ctx context.Context, network, addr string) (net.Conn, error) {
			for _, other := range w.nodes {
				if other.Addr == addr && !w.meets(m.ID, other.ID) {
					return nil, errors.New("no route")
				}
			}
			return web.DialContext(ctx, network, addr)
		})
		man.members = func() []mesh.Member { return w.seenBy(m.ID) }
		man.handler = http.HandlerFunc(man.serve)
		w.nodes = append(w.nodes, man)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, man := range w.nodes {
		man.start(web.listen(man.Addr))
		man.herald = mesh.NewHerald(mesh.HeraldConfig{
			ID: man.ID, Aliases: man.aliases, Members: man.members, Client: man.client, Verifier: man.verifier,
			Tell: func(_ context.Context, message []byte) error { w.gossip(man.ID, message); return nil },
		})
	}
	for _, man := range w.nodes {
		wg.Go(func() { check(t, man.herald.Run(ctx)) })
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, man := range w.nodes {
			man.stop()
		}
	})
	return w
}

func (m *townsman) serve(w http.ResponseWriter, r *http.Request) {
	m.asked.Add(1)
	if answer := m.answer.Load(); answer != nil {
		(*answer)(w, r)
		return
	}
	tag := fmt.Sprintf("%q", base64.RawURLEncoding.EncodeToString(digest(m.aliases)))
	if r.Header.Get("If-None-Match") != tag {
		m.sent.Add(1)
	}
	m.herald.ServeHTTP(w, r)
}

func digest(a *mesh.Aliases) []byte {
	d := a.Digest()
	return d[:]
}

func (w *town) meets(a, b string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.side[a] == w.side[b]
}

func (w *town) seenBy(id string) (seen []mesh.Member) {
	for _, other := range w.nodes {
		if w.meets(id, other.ID) {
			seen = append(seen, other.Member)
		}
	}
	return seen
}

func (w *town) gossip(from string, message []byte) {
	w.mu.Lock()
	deaf := w.deaf
	w.said++
	w.mu.Unlock()
	for _, other := range w.nodes {
		if !deaf && w.meets(from, other.ID) {
			other.herald.Hear(message)
		}
	}
}

func (w *town) messages() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// cut puts the first n nodes on one side and the rest on the other; 0 heals the network, and the two sides meet.
func (w *town) cut(n int) {
	w.mu.Lock()
	for i, man := range w.nodes {
		if w.side[man.ID] = 0; i < n {
			w.side[man.ID] = 1
		}
	}
	w.mu.Unlock()
	if n > 0 {
		return
	}
	for _, man := range w.nodes {
		for _, other := range w.nodes {
			man.herald.Met(other.ID)
		}
	}
}

// leads checks where the name leads at all nodes; "" = nowhere.
func (w *town) leads(name, target string) {
	w.t.Helper()
	for _, man := range w.nodes {
		if got := man.aliases.Targets()[name]; got != target {
			w.t.Errorf("at %s %s leads to %q, not to %q", man.Name, name, got, target)
		}
	}
}

func (w *town) set(i int, name, target string) {
	w.t.Helper()
	if _, err := w.nodes[i].aliases.Set(name, target); err != nil {
		w.t.Fatal(err)
	}
}

// inTown plays f in a town of n nodes whose time is its own.
func inTown(t *testing.T, n int, f func(t *testing.T, w *town)) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, n)
		time.Sleep(10 * time.Second)
		f(t, w)
	})
}
