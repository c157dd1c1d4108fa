package releases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/update"
)

const (
	maxAsked = 8                // members that are asked for one thing: of a large mesh, any
	listFor  = 10 * time.Second // for a member's list
	pieceFor = 30 * time.Second // and for a piece, after which it is taken for gone
	busyFor  = 2 * time.Second  // before one is asked again that has no time
	busyMost = 15               // times in a row
)

// FetcherConfig is what a Fetcher is made of.
type FetcherConfig struct {
	Shelf   *update.Shelf
	Client  *mesh.Client
	Members func() []mesh.Member // the living ones, without this node
}

// Fetcher asks members for what they have fetched.
type Fetcher struct{ cfg FetcherConfig }

var _ update.Members = (*Fetcher)(nil)

// NewFetcher makes a Fetcher.
func NewFetcher(c FetcherConfig) *Fetcher { return &Fetcher{c} }

// some are members in no order, so that not all nodes ask the same one.
func (f *Fetcher) some() []mesh.Member {
	all := f.cfg.Members()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), maxAsked)]
}

// Offers asks all of some members at one time. Who does not answer, has nothing.
func (f *Fetcher) Offers(ctx context.Context) ([]update.Offered, error) {
	ctx, cancel := context.WithTimeout(ctx, listFor)
	defer cancel()
	var mu sync.Mutex // guards all
	var all []update.Offered
	var asking sync.WaitGroup
	for _, m := range f.some() {
		asking.Go(func() {
			text, err := f.ask(ctx, question{m, ListPath, nil, maxList})
			var got offered
			if err != nil || json.Unmarshal(text, &got) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, o := range got.Releases[:min(len(got.Releases), maxAsked)] {
				o.From = m.Name
				all = append(all, o)
			}
		})
	}
	asking.Wait()
	return all, nil
}

// Fetch tries one member after the other. What is none of the part that was asked for leaves nothing, and is passed by.
func (f *Fetcher) Fetch(ctx context.Context, digest string, size int64) error {
	if size < 1 {
		return fmt.Errorf("%s without its size: %w", digest, fs.ErrNotExist)
	}
	var faults error
	for _, m := range f.some() {
		err := f.cfg.Shelf.Put(digest, size, &pieces{ctx: ctx, f: f, from: m, digest: digest, size: size})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			faults = errors.Join(faults, fmt.Errorf("from %s: %w", m.Name, err))
		}
	}
	if faults == nil {
		faults = fs.ErrNotExist
	}
	return fmt.Errorf("fetching %s from a member: %w", digest, faults)
}

// pieces reads a part piece by piece.
type pieces struct {
	ctx    context.Context // of the one reading
	f      *Fetcher
	from   mesh.Member
	digest string
	size   int64

	at   int64
	rest []byte
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if p.at == p.size {
			return 0, io.EOF
		}
		var err error
		if p.rest, err = p.next(min(maxPiece, p.size-p.at)); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.at, p.rest = p.at+int64(n), p.rest[n:]
	return n, nil
}

// next asks for what comes now. A member that has no time is asked again.
func (p *pieces) next(want int64) ([]byte, error) {
	q := url.Values{"digest": {p.digest}, "from": {strconv.FormatInt(p.at, 10)}, "size": {strconv.FormatInt(want, 10)}}
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(p.ctx, pieceFor)
		b, err := p.f.ask(ctx, question{p.from, PiecePath, q, want})
		cancel()
		switch {
		case err == nil && int64(len(b)) != want:
			return nil, fmt.Errorf("%d bytes came in place of %d", len(b), want)
		case !errors.Is(err, mesh.ErrBusy) || try == busyMost:
			return b, err
		}
		select {
		case <-p.ctx.Done():
			return nil, p.ctx.Err()
		case <-time.After(busyFor):
		}
	}
}

// question is one for a member, and the most bytes of an answer.
type question struct {
	to   mesh.Member
	path string
	q    url.Values
	most int64
}

// ask returns a signed answer. What the member says in place of one is a *mesh.No.
func (f *Fetcher) ask(ctx context.Context, q question) ([]byte, error) {
	resp, err := f.cfg.Client.Get(ctx, q.to, q.path, q.q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return f.cfg.Client.ReadGiven(resp, q.most)
}
