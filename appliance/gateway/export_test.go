package gateway

import (
	"fmt"
	"net/http"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

// What the tests in package gateway_test look at from inside.

// BodyDeadline is a client's body's deadline with all times counted from the body's first read.
func BodyDeadline(now time.Duration, got int) time.Duration {
	start := time.Now()
	return bodyLimits{idle: bodyIdle}.deadline(start, start.Add(now), got).Sub(start)
}

// Scanned is what scan finds in a body.
type Scanned struct {
	Model, Stream, CacheKey string // raw JSON, "" = absent
	UserSession             string
}

func Scan(body []byte) (Scanned, error) {
	f, err := scan(body)
	if err != nil {
		return Scanned{}, err
	}
	return Scanned{
		Model: string(f.last(body, keyModel)), Stream: string(f.last(body, keyStream)),
		CacheKey: string(f.last(body, keyPromptCacheKey)), UserSession: f.userSession(body),
	}, nil
}

// ScanOnly is scan without looking at anything, for figures.
func ScanOnly(body []byte) error {
	_, err := scan(body)
	return err
}

func ModelOf(body []byte) (string, error) {
	f, err := scan(body)
	if err != nil {
		return "", err
	}
	return f.model(body)
}

// Edited is the body an engine gets on a route.
func Edited(body []byte, path string, stream bool) ([]byte, error) {
	f, err := scan(body)
	if err != nil {
		return nil, err
	}
	for _, rt := range routes {
		if rt.path == path {
			var out []byte
			for _, p := range edited(body, &f, rt, sent{stream: stream, slot: -1}).parts {
				out = append(out, p...)
			}
			return out, nil
		}
	}
	return nil, err
}

// Reading is an event reader.
type Reading = events

var (
	NewReading = newEvents
	Nearest    = nearest
	MaxEvent   = maxEvent
	MaxDepth   = maxDepth
	Rows       = rows
	Fields     = fields
)

func (e *events) Next() ([]byte, error) { return e.next() }
func (e *events) Release()              { e.release() }

// Assemble puts a stream of a route together.
func Assemble(path string, stream []byte) ([]byte, error) {
	for _, rt := range routes {
		if rt.path != path {
			continue
		}
		asm := newAssembler(rt.kind, false)
		for len(stream) > 0 {
			n := eventEnd(stream, 0)
			if n == 0 {
				break
			}
			name, data := fields(stream[:n])
			stream = stream[n:]
			if len(data) == 0 || string(data) == "[DONE]" {
				continue
			}
			if err := asm.add(name, data); err != nil {
				return nil, err
			}
		}
		return asm.result()
	}
	return nil, errNoAnswer
}

// Lineup is who looks for a slot at an entry.
type Lineup struct{ *lineup }

// Place is a place in one.
type Place struct{ *place }

func NewLineup(max int) Lineup { return Lineup{newLineup(max)} }

// Join takes a place for a request for the model; 0 = with a new ticket.
func (l Lineup) Join(model string, ticket uint64) Place {
	return Place{l.join(&call{model: model}, ticket)}
}

func (l Lineup) Wait(p Place, again bool) error { return l.wait(p.place, again) }
func (l Lineup) Leave(p Place)                  { l.leave(p.place) }

func (l Lineup) Models() int   { return len(l.models) }
func (p Place) Ticket() uint64 { return p.ticket }

// First tells whether nobody is before p.
func (l Lineup) First(p Place) bool {
	_, _, first := l.take(p.place)
	return first
}

// Told tells whether p was woken since the last time.
func (p Place) Told() bool {
	select {
	case <-p.news:
		return true
	default:
		return false
	}
}

// Plans counts how often a request was planned.
func (g *Gateway) Plans() uint64 { return g.seed.Load() }

// Pause keeps everybody from looking for a slot until resume is called.
func (g *Gateway) Pause() (resume func()) {
	g.lineup.mu.Lock()
	return g.lineup.mu.Unlock
}

// WishAfter is what a request wants of this node's engine once some backends have failed it.
func (g *Gateway) WishAfter(model string, tried ...string) engine.Request {
	k := &call{g: g, model: model, triedHere: tried}
	return k.wish("", false)
}

// Prefix is how a prompt begins.
type Prefix struct{ p *prefix }

// PrefixOf reads the prefix of a body sent to a route, under the body's own model.
func PrefixOf(session []byte, path string, body []byte) (Prefix, error) {
	f, err := scan(body)
	if err != nil {
		return Prefix{}, err
	}
	name, _ := f.model(body)
	for _, rt := range routes {
		if rt.path == path {
			p := prefixOf(session, rt, name, body, &f)
			return Prefix{&p}, nil
		}
	}
	return Prefix{}, fmt.Errorf("there is no route %s", path)
}

func (p Prefix) Links() []mesh.Link         { return p.p.Links }
func (p Prefix) Steps() int                 { return p.p.steps }
func (p Prefix) Whole() (text, data int)    { return p.p.whole.text, p.p.whole.data }
func (p Prefix) End(n int) (text, data int) { e := p.p.end(n); return e.text, e.data }

// Common is how many steps from the first on both prompts have, as far as the kept links tell. As each link vouches for
// all before it, the last equal pair decides.
func (p Prefix) Common(q Prefix) int {
	for i := min(p.p.steps, q.p.steps) - 1; i >= 0; i-- {
		a, b := p.p.at(i), q.p.at(i)
		if a >= 0 && b >= 0 && p.p.Links[a] == q.p.Links[b] {
			return i + 1
		}
	}
	return 0
}

// Compacted is asked of two prompts by the tokens they probably have.
func Compacted(old, now Prefix) bool {
	r := rates{models: map[string]*modelRates{}}
	tokens := r.prompt("m", old.p, 0, 0)
	return compacted(mesh.Resident{Chain: old.p.Links, Marks: r.marks("m", old.p, tokens), Tokens: tokens}, now.p.Links, r.prompt("m", now.p, 0, 0))
}

// TokenScale learns how many tokens a prompt has.
type TokenScale struct{ s tokenScale }

func (s *TokenScale) Learn(text, data, tokens int) { s.s.Learn(extent{text, data}, tokens) }
func (s *TokenScale) Estimate(text, data int) int  { return s.s.Estimate(extent{text, data}) }
func (s *TokenScale) Prompt(p Prefix, steps, counted int) int {
	return s.s.Prompt(p.p, steps, counted)
}

// Bounds of a prefix.
const (
	MaxLinks   = maxHeads + maxTails
	MaxHeads   = maxHeads
	MaxSteps   = maxSteps
	BlockBytes = blockBytes
)

// SessionKey is what a request's headers and body say of its conversation.
func SessionKey(g *Gateway, h http.Header, body []byte) (key, source string, err error) {
	f, err := scan(body)
	if err != nil {
		return "", "", err
	}
	key, source = g.sessionKey(h, body, &f)
	return key, source, nil
}

// SessionDigest is what stands for a session key.
func SessionDigest(g *Gateway, key string) string { return g.digest(key) }

// Prefixer works out the prefix of a body that has been scanned, each time it is called.
func Prefixer(session []byte, path string, body []byte) func() {
	f, _ := scan(body)
	for _, rt := range routes {
		if rt.path == path {
			return func() { prefixOf(session, rt, "m", body, &f) }
		}
	}
	return nil
}

// CallPrefix asks a request for its prefix, and again once its body is gone.
func CallPrefix(g *Gateway, path string, body []byte) (first, second Prefix, err error) {
	k := &call{g: g, rt: endpoint{path, kindChat}}
	k.body.bytes = body
	if k.facts, err = scan(body); err != nil {
		return Prefix{}, Prefix{}, err
	}
	if k.model, err = k.facts.model(body); err != nil {
		return Prefix{}, Prefix{}, err
	}
	first = Prefix{k.prefix()}
	k.body.bytes = nil
	return first, Prefix{k.prefix()}, nil
}

// Kept are the candidates of a plan that a row keeps.
func Kept(p route.Plan) []route.Candidate { return cheapest(p) }

// Looking puts as many requests as that in a line at g, of which each goes on with a conversation at one of the members, and
// plans for all of them each time it is called.
func Looking(g *Gateway, body []byte, waiters int, members []mesh.NodeState) (look func()) {
	f, _ := scan(body)
	p := prefixOf(g.sessionSecret(), endpoint{"/v1/chat/completions", kindChat}, "m", body, &f)
	for i := range waiters {
		k := &call{g: g, model: "m", session: fmt.Sprint("s", i), begins: &p, until: time.Now().Add(time.Hour)}
		g.lineup.join(k, 0)
		m := members[i%len(members)]
		g.known.Went("m", k.session, "", mesh.Spot{Node: m.Member.ID, Backend: m.Report.Models[0].Backends[0].ID})
	}
	own := g.own("m")
	return func() {
		g.lineup.mu.Lock()
		defer g.lineup.mu.Unlock()
		v := newView(members, own, "m")
		for _, p := range g.lineup.models["m"] {
			g.plan(p, v)
		}
	}
}
