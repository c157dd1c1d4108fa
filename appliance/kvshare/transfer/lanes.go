package transfer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"viiwork/appliance/mesh"
)

const (
	// offerFor is how long a member's offer is used: shorter than it lets this node in.
	offerFor = guestFor / 2
	// noOfferFor is how long one that offers nothing is not asked again.
	noOfferFor = time.Minute
	// offerWait is how long it may take to say so.
	offerWait = 3 * time.Second
	// laneWait is how long connecting may take: these are machines of one house.
	laneWait = 2 * time.Second
	laneIdle = 30 * time.Second
	maxLanes = 64
)

// errDoor: no connection was made by the direct path.
var errDoor = errors.New("the member cannot be reached by its direct path")

// lane is a direct path to one member.
type lane struct {
	offer     offer
	transport *http.Transport // nil = it has none
	until     time.Time
}

// lanes is the direct paths to members, by id.
type lanes struct {
	mu sync.Mutex // guards what follows
	of map[string]*lane
}

func (l *lanes) get(id string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.of[id]; a != nil && time.Now().Before(a.until) {
		return a
	}
	return nil
}

func (l *lanes) put(id string, a *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*lane{}
	}
	l.drop(id)
	for other := range l.of {
		if len(l.of) < maxLanes {
			break
		}
		l.drop(other) // any one: it is asked for again when it is needed
	}
	l.of[id] = a
}

// drop wants the lock held.
func (l *lanes) drop(id string) {
	if a := l.of[id]; a != nil && a.transport != nil {
		a.transport.CloseIdleConnections()
	}
	delete(l.of, id)
}

func (l *lanes) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(id)
}

func (l *lanes) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.of {
		l.drop(id)
	}
}

// lane is the direct path to a member, nil if there is none. It asks for one, if it has not lately.
func (c *Client) lane(ctx context.Context, m mesh.Member) *http.Transport {
	if !c.trusts() || c.roads.shunned(m.ID, byDirect) {
		return nil
	}
	if a := c.lanes.get(m.ID); a != nil {
		return a.transport
	}
	ctx, cancel := context.WithTimeout(ctx, offerWait)
	defer cancel()
	o, err := c.askOffer(ctx, m)
	if err != nil {
		if !errors.Is(err, ErrNone) {
			c.log.Debug("a member's direct path is not known", "node", m.Name, "error", err)
		}
		c.lanes.put(m.ID, &lane{until: time.Now().Add(noOfferFor)})
		return nil
	}
	a := &lane{offer: o, transport: c.newLane(o), until: time.Now().Add(offerFor)}
	c.lanes.put(m.ID, a)
	return a.transport
}

func (c *Client) askOffer(ctx context.Context, m mesh.Member) (offer, error) {
	body, err := c.question(ctx, m, DirectPath, c.id.print[:], maxOffer)
	if err != nil {
		return offer{}, fmt.Errorf("asking for the direct path: %w", err)
	}
	at, err := netip.ParseAddrPort(m.Addr)
	return readOffer(body, err == nil && at.Addr().IsLoopback())
}

func (c *Client) newLane(o offer) *http.Transport {
	cfg := c.id.dials(o.print)
	return &http.Transport{
		DialTLSContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return firstOf(ctx, o.addrs, cfg) },
		DisableCompression:     true,
		MaxIdleConnsPerHost:    atOnce,
		IdleConnTimeout:        laneIdle,
		MaxResponseHeaderBytes: 16 << 10,
		ReadBufferSize:         64 << 10,
	}
}

// firstOf tries all addresses at once and takes the one where the right node answers first: another machine may have one of
// them, too.
func firstOf(ctx context.Context, addrs []netip.AddrPort, cfg *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, laneWait)
	defer cancel()
	type outcome struct {
		conn *tls.Conn
		err  error
	}
	all := make(chan outcome)
	for _, a := range addrs {
		go func() {
			d := &tls.Dialer{Config: cfg}
			conn, err := d.DialContext(ctx, "tcp", a.String())
			if err != nil {
				all <- outcome{err: because(err)}
				return
			}
			all <- outcome{conn: conn.(*tls.Conn)}
		}()
	}
	var won *tls.Conn
	var errs []error
	for range addrs {
		got := <-all
		switch {
		case got.err != nil:
			errs = append(errs, got.err)
		case won == nil:
			won = got.conn
			cancel() // the others'; what is connected stays so
		default:
			_ = got.conn.Close()
		}
	}
	if won == nil {
		return nil, fmt.Errorf("%w: %w", errDoor, errors.Join(errs...))
	}
	return won, nil
}

// because tells the alert with which a node ends the hello of one it does not expect, as it does once it has started anew.
func because(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return fmt.Errorf("%w: %w", errPin, err)
	}
	return err
}

// postDirect asks by a direct path.
func postDirect(ctx context.Context, t *http.Transport, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://direct.kv"+ChunksPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// Asking again changes nothing there. With this, which is not sent, a connection that the member's last run has left is
	// replaced by a new one, and its end is not taken for one of the path.
	req.Header["Idempotency-Key"] = nil
	return t.RoundTrip(req)
}
