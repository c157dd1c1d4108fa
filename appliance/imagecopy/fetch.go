package imagecopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/images"
	"viiwork/images/papers"
)

const (
	maxAsked  = 8                     // members that are asked for one thing: of a large mesh, any
	papersFor = 10 * time.Second      // for a member's papers
	pieceFor  = 30 * time.Second      // and for a piece, after which it is taken for gone
	busyFor   = 2 * time.Second       // before one is asked again that has no time
	busyMost  = 60                    // times in a row
	maxTries  = 4                     // of a question that meets nobody
	layingFor = 15 * time.Minute      // how long a member may lay out without being further: Docker writes all of it first
	firstLook = 50 * time.Millisecond // before it is asked again how far it is; the later pauses are longer
	lookEach  = time.Second
)

// FetcherConfig is what a Fetcher is made of.
type FetcherConfig struct {
	Client  *mesh.Client
	Members func() []mesh.Member // the living ones, without this node
}

// Fetcher asks members for images.
type Fetcher struct{ cfg FetcherConfig }

var _ images.Members = (*Fetcher)(nil)

// NewFetcher makes a Fetcher.
func NewFetcher(c FetcherConfig) *Fetcher { return &Fetcher{c} }

// Offers asks all of some members at one time, in no order, so that not all nodes take from the same one. Who does not
// answer, has nothing.
func (f *Fetcher) Offers(ctx context.Context, digest string) ([]images.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, papersFor)
	defer cancel()
	all := f.cfg.Members()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var mu sync.Mutex // guards offers
	offers := []images.Offer{}
	var asking sync.WaitGroup
	for _, m := range all[:min(len(all), maxAsked)] {
		asking.Go(func() {
			text, err := f.patiently(ctx, question{m, PapersPath, url.Values{"digest": {digest}}, maxPapers})
			o := images.Offer{Member: m.Name}
			if err != nil || json.Unmarshal(text, &o.Papers) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			offers = append(offers, o)
		})
	}
	asking.Wait()
	return offers, nil
}

// Parts waits until the member has laid the image out.
func (f *Fetcher) Parts(ctx context.Context, member, digest string) ([]papers.Part, error) {
	m, err := f.member(member)
	if err != nil {
		return nil, err
	}
	last, since := int64(-1), time.Now()
	for pause := firstLook; ; pause = min(2*pause, lookEach) {
		text, err := f.patiently(ctx, question{m, PartsPath, url.Values{"digest": {digest}}, maxParts})
		if err != nil {
			return nil, err
		}
		var got laid
		if json.Unmarshal(text, &got) != nil {
			return nil, errors.New("it tells no layers")
		}
		if len(got.Parts) > 0 {
			return got.Parts, nil
		}
		if got.Bytes != last {
			last, since = got.Bytes, time.Now()
		}
		if time.Since(since) > layingFor {
			return nil, fmt.Errorf("it has not laid the image out within %v", layingFor)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// Piece brings bytes of a layer.
func (f *Fetcher) Piece(ctx context.Context, p images.Piece) ([]byte, error) {
	m, err := f.member(p.Member)
	if err != nil {
		return nil, err
	}
	if p.Size < 1 || p.Size > maxPiece {
		return nil, errAsk
	}
	return f.patiently(ctx, question{m, PiecePath, url.Values{
		"digest": {p.Image}, "layer": {p.Layer}, "from": {strconv.FormatInt(p.From, 10)}, "size": {strconv.FormatInt(p.Size, 10)},
	}, p.Size})
}

func (f *Fetcher) member(name string) (mesh.Member, error) {
	all := f.cfg.Members()
	if i := slices.IndexFunc(all, func(m mesh.Member) bool { return m.Name == name }); i >= 0 {
		return all[i], nil
	}
	return mesh.Member{}, fmt.Errorf("no other living node is called %.40q", name)
}

// question is one for a member, and the most bytes of an answer.
type question struct {
	to   mesh.Member
	path string
	q    url.Values
	most int64
}

// patiently asks again where that may help: who has no time, and who was not met.
func (f *Fetcher) patiently(ctx context.Context, q question) ([]byte, error) {
	tries, pause := 1, time.Second
	for busy := 0; ; {
		b, err := f.ask(ctx, q)
		var no *mesh.No
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, mesh.ErrForgedAnswer):
			return b, err
		case errors.Is(err, mesh.ErrBusy):
			if busy++; busy > busyMost {
				return nil, err
			}
			if err := sleep(ctx, busyFor); err != nil {
				return nil, err
			}
			continue
		case errors.As(err, &no) || tries == maxTries:
			return nil, err
		}
		tries++
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause *= 2
	}
}

// ask returns a signed answer. What the member says in place of one is a *mesh.No.
func (f *Fetcher) ask(ctx context.Context, q question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceFor)
	defer cancel()
	resp, err := f.cfg.Client.Get(ctx, q.to, q.path, q.q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return f.cfg.Client.ReadGiven(resp, q.most)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
