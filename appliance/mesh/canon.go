package mesh

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Headers of a request between nodes. All that begin with the prefix are signed, except the signature itself.
const (
	headerPrefix    = "X-Viiwork-"
	headerFrom      = "X-Viiwork-From"      // id of the sender
	headerTo        = "X-Viiwork-To"        // id of the receiver
	headerWire      = "X-Viiwork-Wire"      // wire version the sender writes
	headerTime      = "X-Viiwork-Time"      // milliseconds since 1970
	headerNonce     = "X-Viiwork-Nonce"     // 16 random bytes, base64url
	headerDigest    = "X-Viiwork-Digest"    // SHA-256 of the body, base64url
	headerHop       = "X-Viiwork-Hop"       // 1 on a forward
	headerSignature = "X-Viiwork-Signature" // HMAC-SHA256, base64url
	headerRefused   = "X-Viiwork-Refused"   // on a 403: its code
)

// Bounds of what is looked at before a signature is known to be good.
const (
	maxID            = 128
	maxSignedHeaders = 64
)

var encoding = base64.RawURLEncoding.Strict()

// signature is the HMAC of all that a request's receiver acts on before it reads the body. Every part goes in with its
// length, so that no two different requests have the same bytes.
func signature(key []byte, r *http.Request) []byte {
	h := hmac.New(sha256.New, key)
	put(h, "viiwork request 1")
	put(h, method(r))
	put(h, r.URL.RequestURI())
	names := signedNames(r.Header)
	putCount(h, len(names))
	for _, name := range names {
		put(h, name)
		putCount(h, len(r.Header[name]))
		for _, value := range r.Header[name] {
			put(h, textproto.TrimString(value)) // the wire does not keep white space at the ends
		}
	}
	return h.Sum(nil)
}

// clockSignature proves to the sender of one request, named by its nonce, what the receiver's clock says. Were it
// not signed, anyone on the way could set a sender's clock forward and use what it signs then, much later.
func clockSignature(key []byte, from, to, nonce, at string) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range []string{"viiwork clock 1", from, to, nonce, at} {
		put(h, part)
	}
	return h.Sum(nil)
}

func method(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

func signedNames(header http.Header) []string {
	var names []string
	for name := range header {
		if strings.HasPrefix(name, headerPrefix) && name != headerSignature {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func put(w io.Writer, s string) {
	putCount(w, len(s))
	_, _ = io.WriteString(w, s) // a hash takes everything
}

func putCount(w io.Writer, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	_, _ = w.Write(b[:])
}

func formatTime(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// parseTime reads milliseconds since 1970; false for anything but plain digits of this age of the world.
func parseTime(s string) (time.Time, bool) {
	ms, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) > 14 || s != strconv.FormatUint(ms, 10) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)), true
}

// isID reports whether s can be the id of a node: tailnets and we ourselves give letters and digits.
func isID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("._:-", rune(c)) {
			return false
		}
	}
	return true
}
