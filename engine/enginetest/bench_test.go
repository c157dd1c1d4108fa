package enginetest_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"viiwork/engine/enginetest"
)

// BenchmarkStream64KiB is what the fake itself costs in a load test: one streamed answer of eight tokens to a prompt of
// 64 KiB.
func BenchmarkStream64KiB(b *testing.B) {
	s := enginetest.New(enginetest.Options{Slots: 16, Context: 1 << 20})
	defer s.Close()
	prompt := strings.Repeat("all work and no play ", 64<<10/21)
	payload := []byte(`{"model":"m","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"` + prompt + `"}]}`)
	url := s.URL() + "/v1/chat/completions"
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := c.Post(url, "application/json", bytes.NewReader(payload))
			if err != nil {
				b.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || n < 1000 {
				b.Errorf("%d bytes, %v", n, err)
				return
			}
		}
	})
}
