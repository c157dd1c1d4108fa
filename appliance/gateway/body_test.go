package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/engine/enginetest"
)

// TestAnOversizeBodyIsAnsweredWhileItIsStillSent, announced or chunked, to a client that sends all before it reads.
func TestAnOversizeBodyIsAnsweredWhileItIsStillSent(t *testing.T) {
	n := start(t, nil, func(c *gateway.Config) { c.MaxBody = 1 << 20 })
	for _, chunked := range []bool{false, true} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		size := 1<<20 + 300<<10
		head := "POST /v1/messages HTTP/1.1\r\nHost: one\r\n"
		if chunked {
			head += "Transfer-Encoding: chunked\r\n\r\n"
		} else {
			head += fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
		}
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		block := bytes.Repeat([]byte(" "), 1<<10)
		for sent := 0; sent < size; sent += len(block) {
			piece := block
			if chunked {
				piece = append([]byte("400\r\n"), append(bytes.Clone(block), '\r', '\n')...)
			}
			if _, err := conn.Write(piece); err != nil {
				t.Fatalf("chunked %v: cut off while sending: %v", chunked, err)
			}
		}
		if chunked {
			_, _ = io.WriteString(conn, "0\r\n\r\n")
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("chunked %v: %v", chunked, err)
		}
		b, _ := io.ReadAll(resp.Body)
		wantError(t, reply{status: resp.StatusCode, head: resp.Header, body: b}, true, 413, "", "")
	}
}

// TestAnAnnouncedOversizeBodyIsRefusedUnread: the answer comes before a byte of the body was sent.
func TestAnAnnouncedOversizeBodyIsRefusedUnread(t *testing.T) {
	n := start(t, nil, func(c *gateway.Config) { c.MaxBody = 1 << 20 })
	for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = fmt.Fprintf(conn, "POST /v1/embeddings HTTP/1.1\r\nHost: one\r\n%sContent-Length: %d\r\n\r\n", expect, 1<<20+1)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 413 {
			t.Fatalf("%v %v", resp, err)
		}
	}
}

func TestABodyOfTheFullSizePasses(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1, Context: 1 << 30})
	n := start(t, model("m", 1, f.URL()), func(c *gateway.Config) { c.MaxBody, c.MaxInflight = 2<<20, 3<<20 }).ready()
	body := chat("m", "x", `,"pad":"`)
	body += strings.Repeat("x", 2<<20-len(body)-2) + `"}`
	body = strings.Replace(body, `"}`+`,"pad"`, `","pad"`, 1)
	if len(body) > 2<<20 {
		t.Fatal(len(body))
	}
	for range 3 { // what was held is given back
		if r := n.post("/v1/chat/completions", body); r.status != 200 {
			t.Fatalf("%d %.200s", r.status, r.body)
		}
		req := n.request("POST", "/v1/chat/completions", "")
		req.Body = io.NopCloser(strings.NewReader(body))
		req.ContentLength = -1
		resp, err := n.client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("chunked: %v %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	var sizes []int
	for _, s := range f.Requests() {
		if s.Path == "/v1/chat/completions" && s.Size > 1<<20 {
			sizes = append(sizes, s.Size)
		}
	}
	if len(sizes) != 6 {
		t.Errorf("the engine saw %v", sizes)
	}
}

// TestBodiesInFlightAreBounded: while one large body is held, another that does not fit is told to come again.
func TestBodiesInFlightAreBounded(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 2, Context: 1 << 30, DecodeTPS: 50})
	n := start(t, model("m", 2, f.URL()), func(c *gateway.Config) { c.MaxInflight = 1 << 20 }).ready()
	pad := `,"pad":"` + strings.Repeat("x", 600<<10) + `"`
	resp, leave := n.open("/v1/chat/completions", long("m", "x")+pad+`,"stream":true}`)
	readUntil(t, resp.Body, "content")
	wantError(t, n.post("/v1/messages", ask("", "m", pad)), true, 503, "", "")
	wantError(t, n.post("/v1/chat/completions", ask("", "m", pad)), false, 503, "server_error", "too_many_bodies")
	leave()
	freed(n)
	if r := n.post("/v1/chat/completions", chat("m", "x", pad)); r.status != 200 {
		t.Errorf("%d %.200s", r.status, r.body)
	}
}

func TestABodyCutShortIsNotForwarded(t *testing.T) {
	f := fake(t, enginetest.Options{Slots: 1})
	n := start(t, model("m", 1, f.URL())).ready()
	before := f.Stats().Requests
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: one\r\nContent-Length: 1000\r\n\r\n"+chat("m", "x", ""))
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
	conn.Close()
	n.until("over", func() bool { return n.g.Inflight() == 0 })
	for _, s := range f.Requests()[min(before, len(f.Requests())):] {
		if s.Path == "/v1/chat/completions" {
			t.Error("half a body reached the engine")
		}
	}
}

// TestABodyMustKeepComing: neither a pause nor a trickle holds room for bodies for long.
func TestABodyMustKeepComing(t *testing.T) {
	for _, c := range []struct {
		now  time.Duration
		got  int
		want time.Duration
	}{
		{0, 0, 30 * time.Second},
		{29 * time.Second, 1, 30*time.Second + time.Second/1024}, // a byte now and then buys next to nothing
		{29 * time.Second, 10 << 10, 40 * time.Second},
		{29 * time.Second, 64 << 20, 59 * time.Second},
		{time.Hour, 64 << 20, time.Hour + 30*time.Second},
	} {
		if got := gateway.BodyDeadline(c.now, c.got); got.Round(time.Millisecond) != c.want.Round(time.Millisecond) {
			t.Errorf("after %s and %d bytes: %s, want %s", c.now, c.got, got, c.want)
		}
	}
}
