package serf

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// maxLine is the most of a library's log line that is kept, in bytes.
const maxLine = 300

// logWriter takes what the library logs. It is for developers and goes out at debug level, except for the few lines
// that tell an owner something no other way: what the library knows of strangers it tells in its log alone. The words
// are those of the pinned versions, and a test for each warning fails when they change.
type logWriter struct{ c *Cluster }

func (w *logWriter) Write(line []byte) (int, error) {
	w.c.readLog(string(line))
	return len(line), nil
}

func (c *Cluster) readLog(line string) {
	line = strings.TrimSpace(line)
	if id, addr := strangerIn(line); id != "" {
		c.warn(c.stranger(id, addr))
	} else if _, after, ok := strings.Cut(line, "Was able to connect to "); ok {
		if id, _, ok := strings.Cut(after, " over TCP but UDP probes failed"); ok {
			c.warnOfUDP(id)
		}
	} else if strings.Contains(line, "Binding to public address without encryption") {
		addr := c.own.Addr()
		c.warn(Warning{
			ID: warnPublic, Addr: addr, At: time.Now(), ttl: warningTime,
			Text: "this node is in an open mesh at the public address " + addr.String(),
			Fix:  "give all nodes VIIWORK_MESH_SECRET instead of mesh.open",
		})
	}
	if c.log.Enabled(context.Background(), slog.LevelDebug) {
		c.log.Debug("gossip", "line", withoutPayload(line))
	}
}

func (c *Cluster) warnOfUDP(id string) {
	m, ok := c.find(id)
	if !ok {
		return
	}
	c.warn(Warning{
		ID: warnUDP, Addr: m.Addr.Addr(), At: time.Now(), ttl: warningTime,
		Text: c.who(m.Addr.Addr()) + " is reached by TCP and not by UDP: it may be taken for dead",
		Fix:  "let UDP through to mesh.bind_port on both machines",
	})
}

// strangerIn reads a line about somebody who does not belong here: which warning it is, and whose address. A line
// may quote the stranger, so the address is the last one in it.
func strangerIn(line string) (id string, addr netip.Addr) {
	i := strings.LastIndex(line, "from=")
	if i < 0 {
		return "", netip.Addr{}
	}
	from, err := netip.ParseAddrPort(line[i+len("from="):])
	if err != nil {
		return "", netip.Addr{}
	}
	if id = secretFault(line); id == "" && isGarbage(line) {
		id = warnGarbage
	}
	return id, from.Addr().Unmap()
}

// secretFault tells from an error's text which warning it deserves, "" if the secret is not the cause.
func secretFault(text string) string {
	switch {
	case strings.Contains(text, "no installed keys could decrypt the message"):
		return warnSecret
	case strings.Contains(text, "encryption is configured but remote state is not encrypted"):
		return warnNoSecret
	case strings.Contains(text, "remote state is encrypted and encryption is not configured"):
		return warnOpen
	}
	return ""
}

func isGarbage(line string) bool {
	for _, words := range []string{
		"not supported", "unsupported encryption version", "too small to decrypt", "cannot decrypt empty payload",
		"Failed to decode", "failed to decode", "Failed to decompress", "invalid msgType", "missing message type byte",
		"label header", "unacceptable label", "cannot decode label", "exceeds limit", "is larger than limit",
		"Failed to read remote state", "Failed to receive user message", "more gossip in one stream",
	} {
		if strings.Contains(line, words) {
			return true
		}
	}
	return false
}

// withoutPayload cuts what the library prints of messages' contents, and long lines.
func withoutPayload(line string) string {
	for _, from := range []string{" meta:(", "response type:", "query response: ["} {
		line, _, _ = strings.Cut(line, from)
	}
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	return line
}
