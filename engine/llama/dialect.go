package llama

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"viiwork/engine"
)

// Dialect is llama-server's engine.Dialect.
type Dialect struct {
	client *http.Client
}

var _ engine.Dialect = (*Dialect)(nil)

// New returns a Dialect that talks through client; nil means one that suits engines of this machine.
func New(client *http.Client) *Dialect {
	if client == nil {
		client = localClient()
	}
	return &Dialect{client: client}
}

// localClient opens a connection per question. llama-server gives each open connection one of a handful of threads
// and closes idle ones after 5 s, which is how often it is asked: a kept connection would cost a thread and then lose
// the race against that close. Proxies and redirects are off, as both would carry the engine's key elsewhere.
func localClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Bind gives the flags that make the engine listen on host:port. The port is always given: its default has changed
// between builds.
func (d *Dialect) Bind(host string, port int) []string {
	return []string{"--host", host, "--port", strconv.Itoa(port)}
}
