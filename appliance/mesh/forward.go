package mesh

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

// ErrTwoHops is returned for a forward of a request that has been forwarded already.
var ErrTwoHops = errors.New("the request has been forwarded once: it is not forwarded again")

// Forward is a request that another member is to answer.
type Forward struct {
	Path   string      // as the client wrote it
	Query  string      // what of the client's query concerns the receiver, encoded; "" = nothing
	Header http.Header // the client's, as far as they concern the receiver, and ours (X-Viiwork-…); not changed
	Body   []byte      // whole; not changed before the call returns
}

// Forward lets m answer f, once: after ErrUnreachable another member may be tried, and after an answer of 429 or 503;
// after any other error m may have begun to work on it, and ends it, as the connection is gone. The answer's body must
// be closed. There is no limit on the wait for an answer but ctx; see [Table.Guard].
func (c *Client) Forward(ctx context.Context, m Member, f Forward) (*http.Response, error) {
	if _, marked := f.Header[headerHop]; marked {
		return nil, ErrTwoHops
	}
	u, err := url.Parse(f.Path)
	if err != nil || u.Host != "" || u.Scheme != "" || u.RawQuery != "" || u.Path == "" || u.Path[0] != '/' {
		return nil, errors.New("forwarding a request: its path is none")
	}
	u.RawQuery = f.Query
	header := f.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	// By these the transport would take a request for one that may be sent twice.
	header.Del("Idempotency-Key")
	header.Del("X-Idempotency-Key")
	header.Set(headerHop, "1")
	return c.send(ctx, m, outgoing{method: http.MethodPost, url: *u, header: header, body: f.Body})
}
