package transfer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/mesh"
)

// The most bytes that are asked for at one time: over a userspace network stack, which takes memory for what is under way,
// and elsewhere.
const (
	tailnetWindow = 8 << 20
	openWindow    = 64 << 20
)

// Moved is what a transfer has brought, whole or not.
type Moved struct {
	Path  string // by which most came: "direct", "tailnet", or "mesh" for one that is no tailnet
	Bytes int64
	Took  time.Duration
}

// Fetch brings the chunks of m that are lacked, by their index, and hands each to put, whose bytes are valid during the call
// only. What was put before an error stays put. At most two transfers go on at one time. Errors are [ErrGone], [ErrWrong], that of
// put, the cause of ctx's end, and what has become of the last path there was.
func (c *Client) Fetch(ctx context.Context, from mesh.Member, m replica.Manifest, lacks []int, put func(i int, b []byte) error) (Moved, error) {
	f := c.fetching(from, m, lacks, put)
	began := time.Now()
	err := c.turns.take(ctx, false)
	if err == nil {
		defer c.turns.give()
		err = f.run(ctx)
	}
	return f.moved(time.Since(began)), err
}

// Copy is a Fetch that nobody waits for: it lets those first for whom somebody does, and stands still while the node is busy.
func (c *Client) Copy(ctx context.Context, from mesh.Member, m replica.Manifest, lacks []int, put func(i int, b []byte) error) (Moved, error) {
	f := c.fetching(from, m, lacks, put)
	f.between = func(ctx context.Context) (func(), error) {
		if err := yield(ctx, c.cfg.Busy); err != nil {
			return nil, err
		}
		return c.turns.give, c.turns.take(ctx, true)
	}
	began := time.Now()
	err := f.run(ctx)
	return f.moved(time.Since(began)), err
}

// fetching is one transfer.
type fetching struct {
	client *Client
	from   mesh.Member
	m      replica.Manifest
	lacks  []int // that have to come yet
	left   int64 // bytes of them
	put    func(i int, b []byte) error
	// between takes the turn for what is asked for next; what it returns gives the turn back. nil = it has one.
	between func(context.Context) (func(), error)
	failed  [paths]error
	bytes   [paths]int64
	spare   chan []byte
}

// spares is how many chunks may be on their way from the network to put.
const spares = 4

func (c *Client) fetching(from mesh.Member, m replica.Manifest, lacks []int, put func(i int, b []byte) error) *fetching {
	f := &fetching{client: c, from: from, m: m, lacks: lacks, put: put, spare: make(chan []byte, spares)}
	for _, i := range lacks {
		f.left += int64(m.Chunks[i].Size)
	}
	for range spares {
		f.spare <- nil // made when it is needed, and no larger than that
	}
	return f
}

func (f *fetching) moved(took time.Duration) Moved {
	got := Moved{Path: "mesh", Bytes: f.bytes[byMesh] + f.bytes[byDirect], Took: took}
	switch {
	case f.bytes[byDirect] > f.bytes[byMesh]:
		got.Path = "direct"
	case f.client.cfg.Tailnet:
		got.Path = "tailnet"
	}
	return got
}

// errOurs marks what went wrong on this side: another path would not help.
var errOurs = errors.New("keeping what came")

func (f *fetching) run(ctx context.Context) error {
	for len(f.lacks) > 0 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		p, direct := f.choose(ctx)
		if f.failed[p] != nil {
			return fmt.Errorf("fetching a cache: %w", errors.Join(f.failed[:]...))
		}
		err := f.window(ctx, p, direct)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return fmt.Errorf("fetching a cache: %w", context.Cause(ctx))
		case errors.Is(err, errOurs), errors.Is(err, ErrGone):
			return fmt.Errorf("fetching a cache: %w", err)
		default:
			f.broke(p, err)
		}
	}
	return nil
}

// choose is the path to ask by next, and the direct one's transport.
func (f *fetching) choose(ctx context.Context) (path, *http.Transport) {
	if f.failed[byDirect] != nil {
		return byMesh, nil
	}
	direct := f.client.lane(ctx, f.from)
	if direct == nil {
		return byMesh, nil
	}
	if f.failed[byMesh] != nil || f.client.roads.best(f.from.ID, f.left) == byDirect {
		return byDirect, direct
	}
	return byMesh, nil
}

// broke gives a path up: for this transfer, and for a while if it was there at all.
func (f *fetching) broke(p path, err error) {
	c := f.client
	f.failed[p] = err
	c.log.Debug("a path broke off", "node", f.from.Name, "direct", p == byDirect, "error", err)
	if p != byDirect {
		return
	}
	c.lanes.forget(f.from.ID)
	if !errors.Is(err, errPin) {
		c.roads.shun(f.from.ID, p) // else it has a new certificate since it started anew, and is asked for that the next time
	}
}

// window asks for what fits and takes it.
func (f *fetching) window(ctx context.Context, p path, direct *http.Transport) error {
	if f.between != nil {
		give, err := f.between(ctx)
		if err != nil {
			return err
		}
		defer give()
	}
	c := f.client
	most := int64(openWindow)
	if p == byMesh && c.cfg.Tailnet {
		most = tailnetWindow
		defer c.breath.hold()()
	}
	most = c.roads.window(f.from.ID, p, most)
	n, size := 0, int64(0)
	a := ask{left: f.left}
	for n < len(f.lacks) && n < maxAsked && size < most {
		chunk := f.m.Chunks[f.lacks[n]]
		a.sums = append(a.sums, chunk.Sum[:]...)
		size += int64(chunk.Size)
		n++
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stallFor, func() { cancel(errStalled) })
	defer watchdog.Stop()
	in := &incoming{f: f, ctx: ctx, cancel: cancel, watchdog: watchdog}
	began := time.Now()
	resp, err := f.request(ctx, p, direct, a)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	defer resp.Body.Close()
	in.body = resp.Body
	err = in.all(f.lacks[:n])
	c.roads.measured(f.from.ID, p, in.bytes, time.Since(began)-in.held)
	f.bytes[p] += in.bytes
	f.left -= in.bytes
	f.lacks = f.lacks[in.done:]
	return err
}

func (f *fetching) request(ctx context.Context, p path, direct *http.Transport, a ask) (resp *http.Response, err error) {
	body := a.append(make([]byte, 0, leftBytes+len(a.sums)))
	if p == byDirect {
		resp, err = postDirect(ctx, direct, body)
	} else {
		resp, err = f.client.cfg.Mesh.Post(ctx, f.from, ChunksPath, body)
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		if p == byDirect && resp.StatusCode == http.StatusForbidden {
			return nil, errPin
		}
		return nil, fmt.Errorf("the member answers %d", resp.StatusCode)
	}
	return resp, nil
}
