package mesh

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// ErrForgedAnswer is an answer that the member did not make, or not to this request.
var ErrForgedAnswer = errors.New("the answer is not signed by the member")

// Post sends a member a signed request of this node's own making. The answer's body must be closed.
func (c *Client) Post(ctx context.Context, m Member, path string, body []byte) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	return c.send(ctx, m, outgoing{method: http.MethodPost, url: url.URL{Path: path}, header: header, body: body})
}

// Get asks a member for what is there to be read; the query is signed, too. The answer's body must be closed.
func (c *Client) Get(ctx context.Context, m Member, path string, query url.Values) (*http.Response, error) {
	return c.send(ctx, m, outgoing{method: http.MethodGet, url: url.URL{Path: path, RawQuery: query.Encode()}})
}

// ReadSigned reads an answer of at most so many bytes that the member has signed with [WriteSigned].
func (c *Client) ReadSigned(resp *http.Response, most int64) ([]byte, error) {
	var all bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= most {
		all.Grow(int(n) + bytes.MinRead) // what is read in one go needs no copies
	}
	if _, err := all.ReadFrom(io.LimitReader(resp.Body, most+1)); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	body := all.Bytes()
	sum := decode(resp.Header.Get(headerSignature), sha256.Size)
	proves := func(key []byte) bool { return hmac.Equal(sum, answerSignature(key, resp.Request, body)) }
	if int64(len(body)) > most || sum == nil || !slices.ContainsFunc(c.signer.cfg.Keys.Load().accept, proves) {
		return nil, ErrForgedAnswer
	}
	return body, nil
}

// takenWithin is how long who asked may take for a signed answer, which is whole in memory: the largest are some MiB.
const takenWithin = 2 * time.Minute

// WriteSigned answers a request that has passed [Verifier.Check], so that who asked can tell who answered. One that does not take
// the answer in time is taken for gone, and its connection closed. That holds for the last bytes, too, which go when the handler has
// returned: the server takes the time back itself before another request comes by the connection.
func WriteSigned(w http.ResponseWriter, req *http.Request, peer Peer, body []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(headerSignature, encoding.EncodeToString(answerSignature(peer.key, req, body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takenWithin)) // an in-memory server has none to set
	_, _ = w.Write(body)                                                            // the sender may have gone
}
