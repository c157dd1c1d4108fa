package mesh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// dialFor is long: the first connection to a device that has just joined a tailnet may take 5 s.
	dialFor = 8 * time.Second
	// idleFor is shorter than a node keeps an idle connection open, so that no request meets a closing one.
	idleFor = 30 * time.Second
	// askFirst is the body size from which the receiver is asked whether it wants the body. Up to it, a server reads
	// what it refuses; beyond, it cuts the connection, and its refusal may be lost with it.
	askFirst = 256 << 10
)

// ErrUnreachable is returned when no connection was made: the member has not seen the request.
var ErrUnreachable = errors.New("the member cannot be reached")

// ClientConfig is what a Client is made of.
type ClientConfig struct {
	Signer *Signer
	// Dial reaches members. It must refuse addresses that are none of theirs.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client carries signed requests to members.
type Client struct {
	signer    *Signer
	transport *http.Transport
	ways      ways
}

// NewClient makes a Client.
func NewClient(cfg ClientConfig) *Client {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialFor)
		defer cancel()
		conn, err := cfg.Dial(ctx, network, addr)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return conn, nil
	}
	return &Client{signer: cfg.Signer, transport: &http.Transport{
		DialContext:            dial,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        idleFor,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// Close closes the connections that carry nothing.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// outgoing is a request before it is signed.
type outgoing struct {
	method string
	url    url.URL // path and query
	header http.Header
	body   []byte
	key    []byte // to sign with; nil = the one that rules
}

// send signs and sends. It sends a second time only after the receiver has proved that it did nothing, for the clock's
// sake alone: with the clock corrected.
func (c *Client) send(ctx context.Context, m Member, out outgoing) (*http.Response, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(out.body)
	for try := 1; ; try++ {
		req := out.request(ctx, m)
		if out.key != nil {
			c.signer.signWith(out.key, req, m.ID, digest)
		} else {
			c.signer.Sign(req, m.ID, digest)
		}
		resp, err := c.transport.RoundTrip(req)
		if err != nil {
			return nil, lost(ctx, err)
		}
		if try == 2 || !c.signer.learn(req, resp) {
			return resp, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be used again
		_ = resp.Body.Close()
	}
}

// lost prefers the reason the request was ended for to the transport's word that it was.
func lost(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// request builds the request anew, since signing changes its headers.
func (o outgoing) request(ctx context.Context, m Member) *http.Request {
	u := o.url
	u.Scheme, u.Host = "http", m.Addr
	req := &http.Request{
		Method: o.method, URL: &u, Host: m.Addr, Header: o.header.Clone(), Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, // without it the transport sends Expect and does not wait
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if len(o.body) > 0 {
		req.ContentLength = int64(len(o.body))
		req.Body = io.NopCloser(bytes.NewReader(o.body))
		// Used by the transport when a kept connection turns out closed before a byte was written.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(o.body)), nil }
		if len(o.body) > askFirst {
			req.Header.Set("Expect", "100-continue")
		}
	}
	return req.WithContext(ctx)
}
