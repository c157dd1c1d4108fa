package gateway

import (
	"fmt"
	"net/http"
	"strings"
)

// steer reads the query: where the client wants the request to run, and what of the query is the engine's.
func (k *call) steer() error {
	if k.c.Request().URL.RawQuery == "" {
		return nil
	}
	q := k.c.Request().URL.Query()
	if k.hop == nil {
		if err := k.pin(q.Get("host")); err != nil {
			return err
		}
		k.prefer = splitNames(q.Get("prefer"))
	}
	q.Del("host")
	q.Del("prefer")
	k.query = q.Encode()
	return nil
}

// pin ties the request to the node of that name. Names are compared and never looked up: an address is just a name that
// nobody has.
func (k *call) pin(host string) error {
	switch host {
	case "":
		return nil
	case k.g.cfg.Node:
		k.pinned = true
		return nil
	}
	for _, m := range k.g.members() {
		if m.Member.Name == host {
			k.host = m.Member.ID
			return nil
		}
	}
	if len(host) > 64 {
		host = host[:64]
	}
	return &Error{Status: http.StatusNotFound, Code: "host_not_found", Param: "host", Message: fmt.Sprintf("there is no node named %q here; GET /v1/models lists the nodes under viiwork.hosts", host)}
}

// maxPrefer is how many preferred nodes are looked at.
const maxPrefer = 16

func splitNames(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && len(names) < maxPrefer {
			names = append(names, name)
		}
	}
	return names
}
