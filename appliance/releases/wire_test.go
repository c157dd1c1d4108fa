package releases_test

import (
	"io"
	"net/http/httputil"
	"net/url"
	"testing"

	"viiwork/appliance/releases"
)

// TestAnswersAreThoseThatOtherVersionsKnow to the byte, but for the date and the signature.
func TestAnswersAreThoseThatOtherVersionsKnow(t *testing.T) {
	keys := keyring(t, "k")
	g := newGiver(t, "has", keys)
	b, digest := content(1, 5000)
	g.put(t, b, digest)
	client := clientOf(t, keys)
	const (
		signed = "Cache-Control: no-store\r\nContent-Type: application/octet-stream\r\n\r\n"
		text   = "Cache-Control: no-store\r\nContent-Type: application/json\r\n\r\n"
	)
	for name, c := range map[string]struct {
		path, digest, size string
		head, body         string
	}{
		"a list":        {releases.ListPath, "", "", "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n" + signed, `{"releases":null}`},
		"a piece":       {releases.PiecePath, digest, "9", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n" + signed, string(b[:9])},
		"a large piece": {releases.PiecePath, digest, "9999", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + signed, string(b)},
		"no question": {releases.PiecePath, digest, "x", "HTTP/1.1 400 Bad Request\r\nContent-Length: 123\r\n" + text,
			`{"error":{"code":"bad_request","message":"that is no question for a release","param":null,"type":"invalid_request_error"}}` + "\n"},
		"no part": {releases.PiecePath, "sha256:1", "9", "HTTP/1.1 404 Not Found\r\nContent-Length: 120\r\n" + text,
			`{"error":{"code":"not_found","message":"it has no such part of a release","param":null,"type":"invalid_request_error"}}` + "\n"},
		"no member": {releases.ListPath, "", "", "HTTP/1.1 403 Forbidden\r\nContent-Length: 132\r\n" + text,
			`{"error":{"code":"not_a_member","message":"releases are given to members of the mesh only","param":null,"type":"permission_error"}}` + "\n"},
	} {
		g.strangers = name == "no member"
		resp, err := client.Get(t.Context(), g.member, c.path, url.Values{"digest": {c.digest}, "from": {"0"}, "size": {c.size}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Header.Del("Date")
		resp.Header.Del("X-Viiwork-Signature")
		head, err := httputil.DumpResponse(resp, false)
		body, odd := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || odd != nil || string(head) != c.head || string(body) != c.body {
			t.Errorf("%s: %q %.200q, %v %v", name, head, body, err, odd)
		}
	}
}
