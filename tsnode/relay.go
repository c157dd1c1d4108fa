package tsnode

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// relayIsPlain reports whether the control server is one without TLS that has a relay (DERP) of its own, as Headscale
// can be. Clients speak TLS to relays whatever the control server's address says; against such a one every first
// connection takes 10 s. A control server without TLS whose relays are elsewhere must not be taken for one: those do
// speak TLS, and the setting is for all relays.
func relayIsPlain(ctx context.Context, controlURL string) bool {
	if !strings.HasPrefix(controlURL, "http://") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(controlURL, "/")+"/derp/probe", nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
