package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// sessionHeaders are looked at in this order, before the body and the operator's own.
var sessionHeaders = []string{
	"X-Session-Affinity",
	"X-Session-Id",
	"Session-Id",
	"session_id",
	"X-Claude-Code-Session-Id",
	"X-Opencode-Session",
	"Thread-Id",
}

// maxSessionKey is in bytes; a longer key is ignored as if it were absent.
const maxSessionKey = 256

// Where a session key came from when no header named it.
const (
	sourceCacheKey = "prompt_cache_key"
	sourceUserID   = "metadata.user_id"
	sourceNone     = "none"
	sourcePrefix   = "prefix" // the prompt itself was known
)

// sessionKey finds the conversation a request belongs to: the key and the header's or field's name, or "" and "none".
// The same key from two people is harmless: it only says where a cache may be warm.
func (g *Gateway) sessionKey(h http.Header, body []byte, f *facts) (key, source string) {
	for _, name := range sessionHeaders {
		if v := h.Get(name); usableKey(v) {
			return v, name
		}
	}
	if v, ok := shortString(f.last(body, keyPromptCacheKey)); ok && usableKey(v) {
		return v, sourceCacheKey
	}
	if v := f.userSession(body); usableKey(v) {
		return v, sourceUserID
	}
	for _, name := range g.cfg.SessionHeaders {
		if v := h.Get(name); usableKey(v) {
			return v, name
		}
	}
	return "", sourceNone
}

// shortString decodes a JSON string that may be a key; one far too long is not even copied.
func shortString(lit []byte) (string, bool) {
	if len(lit) > 2+6*maxSessionKey { // each byte may be written as \u00xx
		return "", false
	}
	return unquote(lit)
}

func usableKey(s string) bool { return s != "" && len(s) <= maxSessionKey && printable(s) }

// printable tells whether s is printable ASCII throughout.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// digest stands for a session key wherever it is shown and whatever is told to others. Nobody without the mesh's key can tell
// a session key from its digest by trying; in an open mesh, whose key is published, that takes trying.
func (g *Gateway) digest(key string) string {
	if key == "" {
		return ""
	}
	mac := hmac.New(sha256.New, g.sessionSecret())
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// sessionSecret is what digests of session keys and of prompts are made with.
func (g *Gateway) sessionSecret() []byte {
	if g.cfg.SessionKey != nil {
		if key := g.cfg.SessionKey(); len(key) > 0 {
			return key
		}
	}
	return g.secret[:]
}
