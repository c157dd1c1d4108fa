package transfer

import (
	"context"
	"crypto/tls"
	"io"
	"net/netip"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/mesh"
)

// What tests in transfer_test may look at.
const (
	MaxFrom   = maxFrom
	MaxConns  = maxConns
	MaxGuests = maxGuests
	GuestFor  = guestFor
	StallFor  = stallFor
	PlaceFor  = placeFor
	MaxServed = maxServed
	MaxAsking = maxAsking
	Probe     = probe
	Remeasure = remeasure
)

// As is how somebody would come who has read another's name on the way.
func (c *Client) As(other *Client) *tls.Config {
	cfg := c.id.dials(other.id.print)
	cfg.ServerName, cfg.VerifyConnection = other.id.print.name(), nil
	return cfg
}

// Dials is how a node comes to another.
func (c *Client) Dials(to *Client) *tls.Config { return c.id.dials(to.id.print) }

// Expect puts a node on the list of those who may come.
func (s *Server) Expect(id string, c *Client) { s.guests.expect(id, c.id.print, time.Now()) }

func ReadOffer(b []byte, local bool) error { _, err := readOffer(b, local); return err }

// OfferAgain writes what it has read.
func OfferAgain(b []byte, local bool) ([]byte, error) {
	o, err := readOffer(b, local)
	return o.text(), err
}

func ReadAsk(b []byte) (left int64, sums []byte, ok bool) {
	a, ok := readAsk(b)
	return a.left, a.sums, ok
}

// Roads is what a client knows of the paths to one member.
type Roads struct{ r roads }

func (r *Roads) Measured(direct bool, bytes int64, took time.Duration) {
	r.r.measured("m", pathOf(direct), bytes, took)
}

// Direct tells whether so many bytes go directly, Window how many are asked for there.
func (r *Roads) Direct(left int64) bool               { return r.r.best("m", left) == byDirect }
func (r *Roads) Window(direct bool, most int64) int64 { return r.r.window("m", pathOf(direct), most) }

func pathOf(direct bool) path {
	if direct {
		return byDirect
	}
	return byMesh
}

// Door lets connections in by their address.
type Door struct{ d *door }

func NewDoor() Door { return Door{&door{from: map[netip.Addr]int{}}} }

func (d Door) Enter(i int) bool { return d.d.enter(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})) }
func (d Door) Leave(i int)      { d.d.leave(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})) }

// List is who may come, by two bytes of a fingerprint.
type List struct{ g guests }

func (l *List) Expect(id string, a, b byte) { l.g.expect(id, print{a, b}, time.Now()) }
func (l *List) Len() int                    { return len(l.g.of) }

func (l *List) Has(a, b byte) bool {
	_, ok := l.g.named(print{a, b}.name())
	return ok
}

// TakeAnswer takes all chunks of m from an answer and tells how many were put.
func TakeAnswer(m replica.Manifest, body io.Reader, put func(i int, b []byte) error) (done int, err error) {
	var all []int
	for i := range m.Chunks {
		all = append(all, i)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	watchdog := time.AfterFunc(stallFor, func() { cancel(errStalled) })
	defer watchdog.Stop()
	in := &incoming{f: new(Client).fetching(mesh.Member{}, m, all, put), ctx: ctx, cancel: cancel, watchdog: watchdog, body: body}
	err = in.all(all)
	return in.done, err
}
