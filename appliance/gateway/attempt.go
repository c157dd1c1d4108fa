package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"viiwork/engine"
)

// lingerFor is how long an engine may keep a finished answer open.
const lingerFor = 2 * time.Second

// maxLost is how many engines one request may lose. The first may have died of something else; a request that ends every
// engine it meets must not be handed on until none is left.
const maxLost = 2

// attempt lets one backend answer. again says that it did not get to its first answer byte and another one may try.
func (k *call) attempt(lease *engine.Lease) (again bool, err error) {
	defer lease.Release() // after the body is closed
	k.caches = k.prepare(lease)
	p := edited(k.body.bytes, &k.facts, k.rt, sent{stream: k.stream, slot: k.caches.Slot})
	defer p.close()
	k.depart(lease)
	defer func() { k.land(lease, err) }() // before the slot is given back: whoever gets it finds it told
	resp, err := lease.Do(k.outgoing(p))
	if err != nil {
		if k.ctx.Err() != nil {
			return false, context.Cause(k.ctx)
		}
		if !unreached(err) {
			k.lost++
		}
		return k.lost < maxLost, lost(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		e := refused(resp, k.rt)
		if e.Status < 400 {
			e.Status = http.StatusBadGateway // a redirect leads nowhere a client could go
		}
		return e.Status == http.StatusServiceUnavailable || e.Status == http.StatusTooManyRequests, e
	}
	if !isEventStream(resp.Header) {
		return false, k.plain(resp)
	}
	f := &follower{rt: k.rt, choices: k.facts.choices(k.body.bytes), tally: newTally()}
	if k.stream {
		f.progress, _ = k.facts.flag(k.body.bytes, keyReturnProgress, "return_progress")
		err = k.pump(resp, f)
	} else {
		err = k.gather(resp, f)
	}
	k.tally = f.tally
	return false, err
}

// unreached tells whether an engine never saw the request.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func (k *call) wantTokens() bool {
	want, _ := k.facts.flag(k.body.bytes, keyReturnTokens, "return_tokens")
	return want
}

// outgoing is the request to the engine; the lease adds address and key.
func (k *call) outgoing(p *payload) *http.Request {
	req := &http.Request{
		Method:        http.MethodPost,
		URL:           &url.URL{Path: k.rt.path, RawQuery: k.query},
		Header:        forwarded(k.c.Request().Header),
		Body:          p.reader(),
		ContentLength: p.size,
	}
	return req.WithContext(k.ctx)
}

// kept back from the engine: what concerns one connection only, what is ours, what makes an engine go on after its
// client left, and what only a browser's server needs.
var kept = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Expect": true,
	"Content-Length": true, "Content-Encoding": true, "Host": true, "Cookie": true, "Origin": true, "Referer": true,
	"Accept-Encoding": true, "X-Conversation-Id": true,
}

// forwarded copies the client's headers that are the engine's business. The copies share the values, which nobody
// changes.
func forwarded(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if !kept[name] && !strings.HasPrefix(name, "X-Viiwork-") {
			out[name] = values
		}
	}
	for _, line := range in["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	out["Accept-Encoding"] = identity
	out["Content-Type"] = jsonType
	return out
}

var (
	identity = []string{"identity"}
	jsonType = []string{"application/json"}
)

// smallAnswer is how much of a plain answer is read before any of it is passed on: an answer of that size is known to
// be whole when it begins, and its figures can be read.
const smallAnswer = 256 << 10

// plain passes an answer through that is not a stream.
func (k *call) plain(resp *http.Response) error {
	k.ans.stop()
	if k.ans.started() {
		return unreadable() // the client was promised events
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, smallAnswer))
	if err != nil {
		return lost(err)
	}
	whole := len(head) < smallAnswer
	if whole && !k.readable(head) {
		return unreadable()
	}
	k.firstContent()
	h := k.ans.res.Header()
	switch {
	case whole:
		k.tally.read(head, true)
		h.Set("Content-Length", itoa(len(head)))
	case resp.ContentLength >= 0:
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/json"
	}
	k.ans.begin(resp.StatusCode, kind)
	if _, err := k.ans.Write(head); err != nil {
		return errClientGone
	}
	if whole {
		return nil
	}
	if _, err := io.Copy(k.ans, resp.Body); err != nil {
		if k.ans.failure() != nil {
			return errClientGone
		}
		return lost(err)
	}
	return nil
}

// readable tells whether a whole answer is one its route can have: a document, and an object where there could have been
// a stream. A server of another kind behind the address, or a proxy before it, may say 200 to everything.
func (k *call) readable(answer []byte) bool {
	if k.rt.streams() {
		return eachMember(answer, func(span, span) {}) == nil
	}
	return json.Valid(answer)
}

// failure is the first error in writing to the client.
func (a *answer) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func itoa(n int) string { return strconv.Itoa(n) }

// complete is called with the answer's last event: the engine may not keep the connection for long after it.
func (k *call) complete() {
	if k.linger == nil {
		k.linger = time.AfterFunc(lingerFor, func() { k.cancel(errLingered) })
	}
}
