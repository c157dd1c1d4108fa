package mesh_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// A place of the engine's line is one a desk can lend.
var _ mesh.Place[*engine.Lease] = (*engine.Ticket)(nil)

// loft is the seats of one model, m: the engine's own line behind a lock, as in the engine, with an eye on what it
// must keep: one holder a seat, nobody waiting while a seat he accepts is free, and the order of coming.
type loft struct {
	t        testing.TB
	draining bool

	mu      sync.Mutex
	line    *engine.Line
	tickets []*ticket // in the order in which they came, until they have a seat or left
	held    map[*engine.Seat]bool
	latest  string // backend of the last grant, from which the line goes round
}

func newLoft(t testing.TB, most, seats int, backends ...string) *loft {
	l := &loft{t: t, held: map[*engine.Seat]bool{}}
	l.line = engine.NewLine(most, l.granted)
	for _, id := range backends {
		l.line.Open(id, seats, 0, time.Now())
	}
	return l
}

// ticket is a place in the loft's line.
type ticket struct {
	*loft
	w       *engine.Waiter
	settled bool
}

// loan is a seat that somebody holds.
type loan struct {
	*loft
	seat *engine.Seat
	back bool
}

func (l *loft) join(a mesh.Ask) (mesh.Place[*loan], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.check()
	switch {
	case a.Model != "m":
		return nil, engine.ErrUnknownModel
	case l.draining:
		return nil, engine.ErrDraining
	}
	w, err := l.line.Join(engine.Request{Model: a.Model, Backends: a.Backends, Prefer: a.Prefer, Session: a.Session, NoWait: a.WaitMS == 0})
	if err != nil {
		return nil, err
	}
	t := &ticket{loft: l, w: w}
	if w.Seat == nil {
		l.tickets = append(l.tickets, t)
	}
	return t, nil
}

// granted is called by the line, which has the lock.
func (l *loft) granted(w *engine.Waiter) {
	if l.held[w.Seat] {
		l.t.Errorf("seat %s %d has two holders", w.Seat.Backend, w.Seat.N)
	}
	l.held[w.Seat] = true
	l.latest = w.Seat.Backend
	for i, t := range l.tickets {
		if t.w == w {
			l.tickets = slices.Delete(l.tickets, i, i+1)
			return
		}
		if t.w.Request.Backends == nil || slices.Contains(t.w.Request.Backends, w.Seat.Backend) {
			l.t.Errorf("a seat of %s went to somebody behind one who accepts it", w.Seat.Backend)
		}
	}
}

// check looks for a lost waiter. It wants the lock held.
func (l *loft) check() {
	for _, t := range l.tickets {
		for _, id := range []string{"a", "b"} {
			for _, s := range l.line.Seats(id) {
				if s.State == engine.SeatFree && (t.w.Request.Backends == nil || slices.Contains(t.w.Request.Backends, id)) {
					l.t.Errorf("somebody waits while a seat of %s is free", id)
				}
			}
		}
	}
	if len(l.tickets) != l.line.Len() {
		l.t.Errorf("%d wait, the line has %d", len(l.tickets), l.line.Len())
	}
}

func (t *ticket) Done() <-chan struct{} { return t.w.Done() }

func (t *ticket) Ahead() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line.Ahead(t.w)
}

func (t *ticket) Collect() (*loan, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.settled:
		t.t.Error("a place was collected that was collected or left before")
	case t.w.Err != nil:
		return nil, t.w.Err
	case t.w.Seat == nil:
		t.t.Error("a place was collected that still waits")
	}
	t.settled = true
	return &loan{loft: t.loft, seat: t.w.Seat}, nil
}

func (t *ticket) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.check()
	if t.settled {
		t.t.Error("a place was left that was collected or left before")
		return
	}
	t.settled = true
	t.line.Leave(t.w)
	t.tickets = slices.DeleteFunc(t.tickets, func(o *ticket) bool { return o == t })
	if t.w.Seat != nil {
		t.free(t.w.Seat)
	}
}

func (s *loan) Backend() string { return s.seat.Backend }

func (s *loan) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.check()
	if s.back {
		s.t.Error("a seat was given back twice")
		return
	}
	s.back = true
	s.free(s.seat)
}

func (l *loft) free(s *engine.Seat) {
	if !l.held[s] {
		l.t.Error("a seat was freed that nobody held")
	}
	delete(l.held, s)
	l.line.Free(s)
}

// drain refuses who waits and who comes.
func (l *loft) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining, l.tickets = true, nil
	l.line.Refuse(engine.ErrDraining)
}

func (l *loft) state() (held, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held), l.line.Len()
}

func explain(err error) *mesh.SeatRefused {
	switch {
	case errors.Is(err, engine.ErrUnknownModel):
		return &mesh.SeatRefused{Status: 404, Code: "model_not_found", Message: "this node has no such model"}
	case errors.Is(err, engine.ErrFull):
		return &mesh.SeatRefused{Status: 429, Code: "node_full", Message: "no free slot", RetryAfter: 2 * time.Second}
	case errors.Is(err, engine.ErrLineFull):
		return &mesh.SeatRefused{Status: 429, Code: "line_full", Message: "the line is full", RetryAfter: 2 * time.Second}
	case errors.Is(err, engine.ErrDraining):
		return &mesh.SeatRefused{Status: 503, Code: "draining", Message: "this node drains", RetryAfter: 5 * time.Second}
	}
	return nil
}

// newDesk makes n lend the loft's seats. n's parts must be there.
func newDesk(n *node, l *loft) *mesh.Desk[*loan] {
	return mesh.NewDesk(mesh.DeskConfig[*loan]{
		Join: l.join, Explain: explain, Verifier: n.verifier, Table: n.table,
		Expect: func(_ string, ahead int) time.Duration { return time.Duration(ahead) * time.Second },
	})
}

// market is an owner, n09, with a desk, and entries n01, n02 … that follow it and are followed by it, on one network.
type market struct {
	*loft
	t       testing.TB
	web     *network
	owner   *node
	desk    *mesh.Desk[*loan]
	entries []*trader
}

// trader is an entry. Once dead it neither reads, writes nor closes anything: what is sent to it is swallowed.
type trader struct {
	*node
	m    *market
	l    *listener
	dead chan struct{}
}

func newMarket(t testing.TB, l *loft, entries int) *market {
	m := &market{loft: l, t: t, web: newNetwork()}
	k := keys(t, mesh.KeyConfig{Secret: secret})
	var all []mesh.Member
	for i := range entries {
		all = append(all, member(i+1))
	}
	m.owner = newNode(t, member(9), k, m.web.DialContext)
	m.owner.members = func() []mesh.Member { return all }
	m.owner.report = capacity(1)
	made := make(chan struct{})
	m.owner.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-made
		m.desk.ServeHTTP(w, r)
	})
	m.owner.start(m.web.listen(m.owner.Addr))
	m.desk = newDesk(m.owner, l)
	close(made)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { check(t, m.desk.Run(ctx)) })
	for _, who := range all {
		e := &trader{m: m, dead: make(chan struct{})}
		e.node = newNode(t, who, k, e.dial)
		e.members = func() []mesh.Member { return []mesh.Member{member(9)} }
		e.l = m.web.listen(e.Addr)
		e.start(e.l)
		m.entries = append(m.entries, e)
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, e := range m.entries {
			e.l.thaw()
		}
		m.owner.stop() // which ends what the dead still have open
		for _, e := range m.entries {
			e.stop()
		}
	})
	time.Sleep(time.Second) // all follow each other
	return m
}

func (e *trader) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := e.m.web.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &deafConn{Conn: c, dead: e.dead}, nil
}

// die stops the entry without a word.
func (e *trader) die() {
	close(e.dead)
	e.l.freeze()
}

func (e *trader) ask(ctx context.Context, a mesh.Ask) (mesh.Grant, error) {
	return e.client.AskSeat(ctx, member(9), a, nil)
}

// take asks and redeems at once, as a forward would.
func (e *trader) take(ctx context.Context, a mesh.Ask) *loan {
	e.m.t.Helper()
	g, err := e.ask(ctx, a)
	if err != nil {
		e.m.t.Fatal(err)
	}
	s, ok := e.m.desk.Redeem(e.ID, g.ID, a.Model)
	if !ok {
		e.m.t.Fatal("a fresh lease is none")
	}
	return s
}

// deafConn is an entry's end of a connection.
type deafConn struct {
	net.Conn
	dead chan struct{}
}

func (c *deafConn) isDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// Read takes, once dead, what the other end still sends and gives it to nobody.
func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.isDead() {
			return n, err
		}
	}
}

func (c *deafConn) Write(p []byte) (int, error) {
	if c.isDead() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Close() error {
	if c.isDead() {
		go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
		return nil
	}
	return c.Conn.Close()
}
