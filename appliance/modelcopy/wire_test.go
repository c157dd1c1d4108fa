package modelcopy_test

import (
	"io"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"viiwork/appliance/modelcopy"
)

// TestAnswersAreThoseThatOtherVersionsKnow to the byte, but for the date and the signature.
func TestAnswersAreThoseThatOtherVersionsKnow(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 5000}, one)
	client := clientOf(t, "asks", g.keys)
	_, list := g.ask(t, client, modelcopy.ListPath, url.Values{"model": {"org/m"}})
	_, tag, _ := strings.Cut(list, `"tag":"`)
	tag = tag[:32]
	digest, err := digestOf(t.Context(), []string{filepath.Join(g.dir, "sub/m.gguf")})
	if err != nil {
		t.Fatal(err)
	}
	listed := `{"model":"org/m","digest":"` + digest + `","files":[{"name":"m.gguf","size":5000,"digest":"` + digest + `","tag":"` + tag + `"}]}`
	const (
		signed = "Cache-Control: no-store\r\nContent-Type: application/octet-stream\r\n\r\n"
		text   = "Cache-Control: no-store\r\nContent-Type: application/json\r\n\r\n"
	)
	for name, c := range map[string]struct {
		path, model, size string
		head, body        string
	}{
		"a list":  {modelcopy.ListPath, "org/m", "", "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(listed)) + "\r\n" + signed, listed},
		"a piece": {modelcopy.PiecePath, "org/m", "9999", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n" + signed, string(content("sub/m.gguf", 5000))},
		"no question": {modelcopy.PiecePath, "org/m", "x", "HTTP/1.1 400 Bad Request\r\nContent-Length: 129\r\n" + text,
			`{"error":{"code":"bad_request","message":"that is no question for a model's files","param":null,"type":"invalid_request_error"}}` + "\n"},
		"no model": {modelcopy.ListPath, "org/n", "", "HTTP/1.1 404 Not Found\r\nContent-Length: 155\r\n" + text,
			`{"error":{"code":"model_not_found","message":"it has no model and no file below its models_dir of that name","param":null,"type":"invalid_request_error"}}` + "\n"},
		"no member": {modelcopy.ListPath, "org/m", "", "HTTP/1.1 403 Forbidden\r\nContent-Length: 130\r\n" + text,
			`{"error":{"code":"not_a_member","message":"models are given to members of the mesh only","param":null,"type":"permission_error"}}` + "\n"},
	} {
		g.friend.Store(name != "no member")
		resp, err := client.Get(t.Context(), g.member, c.path, url.Values{"model": {c.model}, "file": {"0"}, "tag": {tag}, "from": {"0"}, "size": {c.size}})
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
