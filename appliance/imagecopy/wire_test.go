package imagecopy_test

import (
	"io"
	"net/http/httputil"
	"net/url"
	"testing"

	"viiwork/appliance/imagecopy"
)

// TestAnswersAreThoseThatOtherVersionsKnow to the byte, but for the date and the signature.
func TestAnswersAreThoseThatOtherVersionsKnow(t *testing.T) {
	keys := keyring(t, "k")
	e := newEngine(t)
	g := newGiver(t, e, keys)
	parts, err := asker(t, keys, g).Parts(t.Context(), "attic", e.Digest)
	if err != nil {
		t.Fatal(err)
	}
	layer := parts[0].Digest
	client := newClient(t, keys)
	const (
		signed = "Cache-Control: no-store\r\nContent-Type: application/octet-stream\r\n\r\n"
		text   = "Cache-Control: no-store\r\nContent-Type: application/json\r\n\r\n"
	)
	for name, c := range map[string]struct {
		path, layer, size string
		head, body        string
	}{
		"a piece":       {imagecopy.PiecePath, layer, "9", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n" + signed, string(e.Archives[layer][:9])},
		"a large piece": {imagecopy.PiecePath, layer, "5000", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + signed, string(e.Archives[layer][:5000])},
		"no question": {imagecopy.PiecePath, layer, "x", "HTTP/1.1 400 Bad Request\r\nContent-Length: 122\r\n" + text,
			`{"error":{"code":"bad_request","message":"that is no question for an image","param":null,"type":"invalid_request_error"}}` + "\n"},
		"no layer": {imagecopy.PiecePath, "sha256:1", "9", "HTTP/1.1 404 Not Found\r\nContent-Length: 132\r\n" + text,
			`{"error":{"code":"not_found","message":"it has no such image, or has not laid it out","param":null,"type":"invalid_request_error"}}` + "\n"},
		"no member": {imagecopy.PapersPath, "", "", "HTTP/1.1 403 Forbidden\r\nContent-Length: 143\r\n" + text,
			`{"error":{"code":"not_a_member","message":"images are given to living members of a secured mesh only","param":null,"type":"permission_error"}}` + "\n"},
	} {
		g.strangers = name == "no member"
		resp, err := client.Get(t.Context(), g.member, c.path, url.Values{"digest": {e.Digest}, "layer": {c.layer}, "from": {"0"}, "size": {c.size}})
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
