package localcontrol

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"

	"tailscale.com/derp/derpserver"
	"tailscale.com/types/key"
)

// relay is a DERP server behind TLS with a certificate of its own.
type relay struct {
	derp *derpserver.Server
	http *httptest.Server
}

func startRelay(logf func(string, ...any)) (*relay, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := derpserver.New(key.NewNode(), logf)
	s := &httptest.Server{Listener: l, Config: &http.Server{
		Handler:  derpserver.Handler(d),
		ErrorLog: log.New(io.Discard, "", 0),
		// The relay takes connections over, which HTTP/2 does not allow.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}}
	s.StartTLS()
	return &relay{derp: d, http: s}, nil
}

func (r *relay) port() int { return r.http.Listener.Addr().(*net.TCPAddr).Port }

// close ends the relay's connections first: the HTTP server no longer knows those that were taken over.
func (r *relay) close() {
	r.derp.Close()
	r.http.CloseClientConnections()
	r.http.Close()
}
