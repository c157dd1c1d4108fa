package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/mesh"
)

// Config is what a Client, and the Server beside it, is made of.
type Config struct {
	Mesh *mesh.Client
	// Tailnet says that the mesh's own path is a userspace network stack.
	Tailnet bool
	// Direct is the addresses of this machine to offer, or "auto" for its private ones. None: this node offers no direct
	// path, and still uses those of others.
	Direct []string
	Port   int // of the direct path; 0 = DirectPort
	// Trusted tells whether what comes over the mesh comes from who it says: the mesh has a secret, or is a tailnet. Else
	// there is no direct path. nil = it does not.
	Trusted func() bool
	// Busy tells whether requests run for which a [Client.Copy] should wait; nil = it never has to.
	Busy func() bool
	// Rate is how many bytes a second this node takes, and how many it sends: 0 = any number. Under 1 MiB the other side may
	// take it for gone.
	Rate int64
	Log  *slog.Logger // nil = silent
}

// DirectPort is where nodes are come to by the direct path.
const DirectPort = 8087

// Client fetches states from members.
type Client struct {
	cfg    Config
	log    *slog.Logger
	id     identity
	turns  turns
	limit  limit
	sends  sends
	breath breath
	roads  roads
	lanes  lanes
}

// NewClient makes a Client. It must be closed.
func NewClient(c Config) (*Client, error) {
	if c.Port == 0 {
		c.Port = DirectPort
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	id, err := newIdentity()
	if err != nil {
		return nil, err
	}
	return &Client{cfg: c, log: c.Log, id: id, limit: limit{bps: c.Rate}}, nil
}

// Close closes the direct connections that carry nothing.
func (c *Client) Close() { c.lanes.closeIdle() }

func (c *Client) trusts() bool { return c.cfg.Trusted != nil && c.cfg.Trusted() }

// Sends tells at how many bytes a second this node has lately sent caches, 0 = it has not, and how long it will take to send what
// it was asked for.
func (c *Client) Sends() (bps float64, left time.Duration) { return c.sends.told() }

// Errors that callers tell apart.
var (
	// ErrNone: the member has no state of that conversation.
	ErrNone = errors.New("the member has no such cache")
	// ErrGone: it had, and has thrown a part of it away since.
	ErrGone = errors.New("the member does not have all of the cache any more")
	// ErrWrong: what it sent is not what it said.
	ErrWrong = errors.New("the member sent other bytes than it promised")
)

// Manifest asks a member for the state of the conversation that has the link. It waits while the member saves it. Errors are
// [ErrNone], [mesh.ErrForgedAnswer], those of [replica.Parse] and the network's.
func (c *Client) Manifest(ctx context.Context, m mesh.Member, link string) (State, error) {
	body, err := c.question(ctx, m, ManifestPath, []byte(link), labels+int64(replica.MaxManifest))
	if err != nil {
		return State{}, fmt.Errorf("asking for a cache: %w", err)
	}
	if len(body) < labels || strings.Trim(string(body[:labels]), "0123456789abcdef") != "" {
		return State{}, errors.New("asking for a cache: the member's has no name")
	}
	s := State{Name: string(body[:linkDigits]), Last: string(body[linkDigits:labels])}
	s.Manifest, err = replica.Parse(body[labels:])
	return s, err
}

// labels is how many bytes come before a manifest: a name and a link.
const labels = 2 * linkDigits

// question gets a signed answer of at most so many bytes.
func (c *Client) question(ctx context.Context, m mesh.Member, path string, body []byte, most int64) ([]byte, error) {
	resp, err := c.cfg.Mesh.Post(ctx, m, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return c.cfg.Mesh.ReadSigned(resp, most)
	case http.StatusNotFound:
		return nil, ErrNone
	}
	return nil, fmt.Errorf("the member answers %d", resp.StatusCode)
}
