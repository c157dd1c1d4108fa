package appliance_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

// TestAMessageOfAMemberThatStopsHalfWayIsGivenUp: the machine that sent it may have died, which no connection of a tailnet
// tells. One that has come may wait for its answer.
func TestAMessageOfAMemberThatStopsHalfWayIsGivenUp(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 1, Model: "m", DecodeTPS: 20})
	f := lanFellow(t, 20, served("m", engine.URL(), 1))
	f.secret = rightSecret
	f.here(t)
	holds(t, "it is in its mesh and serves", func() bool {
		return f.owner(t, "GET", "/v1/aliases", "").status != 503 && f.sees("m") == 1 && f.owner(t, "GET", "/readyz", "").status == 200
	})
	keys, err := mesh.NewKeys(mesh.KeyConfig{Secret: []byte("01234567890123456789012345678901")})
	if err != nil {
		t.Fatal(err)
	}
	signer := mesh.NewSigner(mesh.SignerConfig{ID: "somebody", Keys: mesh.NewKeyring(keys)})
	send := func(path, body string, bytes int) (net.Conn, *http.Request) {
		req, _ := http.NewRequest("POST", f.url()+path, nil)
		signer.Sign(req, f.id(t), sha256.Sum256([]byte(body)))
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", path, req.URL.Host, len(body))
		_ = req.Header.Write(conn)
		_, _ = io.WriteString(conn, "\r\n"+body[:bytes])
		_ = conn.SetReadDeadline(time.Now().Add(longWait))
		return conn, req
	}
	var wg sync.WaitGroup
	for _, path := range []string{"/v1/lease", "/v1/secret", "/api/aliases", "/v1/lease/x"} {
		conn, req := send(path, `{"model":"m","wait_ms":60000}`, 5)
		wg.Go(func() {
			resp, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil || resp.StatusCode < 400 {
				t.Errorf("%s: %v %v", path, resp, err)
			}
		})
	}
	wg.Go(func() {
		if got := f.chat("", question("m", "for longer than a body may take", 130, false)); !got.complete(false) {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	holds(t, "the slot is taken", func() bool { return engine.Stats().Active == 1 })
	ask := `{"model":"m","wait_ms":60000}`
	conn, req := send("/v1/lease", ask, len(ask))
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	if said, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(said), `"lease"`) {
		t.Errorf("who waited was told %s, %v", said, err)
	}
	wg.Wait()
}
