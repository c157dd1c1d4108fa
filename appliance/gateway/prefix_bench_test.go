package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/gateway"
)

// agentBody is a conversation as coding agents have it: code, so an escape every few dozen bytes, in many messages. With html it is
// written as encoding/json does, with longer escapes than needed.
func agentBody(t testing.TB, size int, html bool) []byte {
	code := "func (s *Server) handle(w http.ResponseWriter, r *http.Request) {\n\tif err := s.decode(r.Body, &req); err != nil {\n\t\thttp.Error(w, \"bad request\", 400)\n\t\treturn\n\t}\n}\n"
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(strings.Repeat(code, 24)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`{"model":"m","messages":[{"role":"system","content":"You write code."}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":%q,"content":%s}`, [2]string{"user", "assistant"}[i%2], strings.TrimSpace(text.String()))
	}
	b.WriteString(`],"stream":true}`)
	return []byte(b.String())
}

// BenchmarkPrefix1MiB is what the chain of a long conversation costs, with many escapes and with none, beside the scan
// before it and beside SHA-256 of the same bytes alone. cpu-ms/op is what counts on a machine that has other work.
func BenchmarkPrefix1MiB(b *testing.B) {
	key := []byte("0123456789abcdef0123456789abcdef")
	chat, html := agentBody(b, 1<<20, false), agentBody(b, 1<<20, true)
	small := agentBody(b, 64<<10, false)
	hostile := []byte(`{"model":"m","messages":[` + strings.Repeat("{},", 1<<20/3) + `{}]}`)
	plain := []byte(`{"model":"m","prompt":"` + strings.Repeat("lorem ipsum ", 1<<20/12) + `"}`)
	for _, c := range []struct {
		name string
		size int
		do   func()
	}{
		{"sha256", len(chat), func() { sha256.Sum256(chat) }},
		{"chat/scan", len(chat), func() { _ = gateway.ScanOnly(chat) }},
		{"chat", len(chat), gateway.Prefixer(key, "/v1/chat/completions", chat)},
		{"chat/escaped", len(html), gateway.Prefixer(key, "/v1/chat/completions", html)},
		{"completions/scan", len(plain), func() { _ = gateway.ScanOnly(plain) }},
		{"completions", len(plain), gateway.Prefixer(key, "/v1/completions", plain)},
		{"chat64KiB/scan", len(small), func() { _ = gateway.ScanOnly(small) }},
		{"chat64KiB", len(small), gateway.Prefixer(key, "/v1/chat/completions", small)},
		{"hostile/scan", len(hostile), func() { _ = gateway.ScanOnly(hostile) }},
		{"hostile", len(hostile), gateway.Prefixer(key, "/v1/chat/completions", hostile)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				c.do()
			}
			b.ReportMetric((cpu()-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpu is the processor time this process has had.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
