package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is n streamed chat requests with prompts of about 64 KiB each, so many at a time.
type load struct {
	url           string
	n, concurrent int
}

// outcome is what the clients saw.
type outcome struct {
	elapsed time.Duration
	ttfb    []time.Duration // sorted
	failed  []string        // one line for each stream that did not end as it must; bounded
	broken  int
}

func (o outcome) percentile(p float64) time.Duration {
	return o.ttfb[min(len(o.ttfb)-1, int(p*float64(len(o.ttfb))))]
}

// run sends the load and checks each stream to its last byte.
func (l load) run() outcome {
	transport := &http.Transport{MaxIdleConnsPerHost: l.concurrent}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	var (
		next  atomic.Int64
		mu    sync.Mutex
		out   outcome
		begun = time.Now()
		all   sync.WaitGroup
	)
	for range l.concurrent {
		all.Go(func() {
			for i := next.Add(1); i <= int64(l.n); i = next.Add(1) {
				ttfb, err := stream(client, l.url, int(i))
				mu.Lock()
				out.ttfb = append(out.ttfb, ttfb)
				if err != nil {
					out.broken++
					if len(out.failed) < 5 {
						out.failed = append(out.failed, err.Error())
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	out.elapsed = time.Since(begun)
	slices.Sort(out.ttfb)
	return out
}

var filler = strings.Repeat("All work and no play makes a dull prompt. ", 64<<10/42)

// stream sends one request and reads its answer to the end.
func stream(client *http.Client, url string, i int) (ttfb time.Duration, err error) {
	body, _ := json.Marshal(map[string]any{
		"model": "m", "stream": true, "max_tokens": 16,
		"messages": []map[string]string{{"role": "user", "content": fmt.Sprintf("%d %s", i, filler)}},
	})
	begun := time.Now()
	answer, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return time.Since(begun), err
	}
	defer answer.Body.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(answer.Body, first)
	ttfb = time.Since(begun)
	if err != nil {
		return ttfb, fmt.Errorf("request %d: status %d, no first byte: %w", i, answer.StatusCode, err)
	}
	rest, err := io.ReadAll(answer.Body)
	if err != nil {
		return ttfb, fmt.Errorf("request %d: broke off: %w", i, err)
	}
	if answer.StatusCode != http.StatusOK || !bytes.Contains(rest, []byte(`"finish_reason":"`)) || !bytes.HasSuffix(bytes.TrimSpace(rest), []byte("data: [DONE]")) {
		return ttfb, fmt.Errorf("request %d: status %d, ends with %.200q", i, answer.StatusCode, rest[max(0, len(rest)-200):])
	}
	return ttfb, nil
}

// TestStreamsUnderLoad is the short form of the load that BenchmarkRouter runs in full: no stream breaks, and memory
// does not grow with the number of requests served.
func TestStreamsUnderLoad(t *testing.T) {
	engine := start(t, "engine")
	node := start(t, "node", engine.url, t.TempDir())
	waitReady(t, node.url)
	warm := load{node.url, 400, 16}.run()
	before := node.rss(t)
	out := load{node.url, 1200, 16}.run()
	if warm.broken+out.broken > 0 {
		t.Fatalf("%d streams broke: %v", warm.broken+out.broken, append(warm.failed, out.failed...))
	}
	if grown := node.rss(t) - before; grown > 96<<20 {
		t.Errorf("the node grew by %.0f MiB over 1,200 requests", grown/(1<<20))
	}
}

// BenchmarkRouter sends the same streamed load (64 KiB prompts, 16 at a time) to the engine itself, through the standard
// library's reverse proxy, and through a node, and prints what each adds. -benchtime 10000x is the full load.
func BenchmarkRouter(b *testing.B) {
	engine := start(b, "engine")
	proxy := start(b, "proxy", engine.url)
	node := start(b, "node", engine.url, b.TempDir())
	waitReady(b, node.url)
	for _, url := range []string{engine.url, proxy.url, node.url} {
		load{url, 200, 16}.run() // connections, pools, page faults
	}
	n := max(b.N, 32)
	b.ResetTimer()
	e0 := engine.cpu(b)
	direct := load{engine.url, n, 16}.run()
	e1, p0 := engine.cpu(b), proxy.cpu(b)
	stock := load{proxy.url, n, 16}.run()
	e2, p1, n0 := engine.cpu(b), proxy.cpu(b), node.cpu(b)
	early := load{node.url, n / 2, 16}.run()
	rss := node.rss(b)
	late := load{node.url, n - n/2, 16}.run()
	e3, n1 := engine.cpu(b), node.cpu(b)
	b.StopTimer()
	if early.broken+late.broken > 0 {
		b.Fatalf("%d streams broke: %v", early.broken+late.broken, append(early.failed, late.failed...))
	}
	through := outcome{elapsed: early.elapsed + late.elapsed, ttfb: append(early.ttfb, late.ttfb...)}
	slices.Sort(through.ttfb)
	rate := func(o outcome) float64 { return float64(n) / o.elapsed.Seconds() }
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate(through), "req/s")
	b.ReportMetric(rate(through)/rate(direct), "rate/direct")
	b.ReportMetric(rate(through)/rate(stock), "rate/stockproxy")
	b.ReportMetric(ms(through.percentile(0.5)-direct.percentile(0.5)), "added-ttfb-p50-ms")
	b.ReportMetric(ms(through.percentile(0.99)-direct.percentile(0.99)), "added-ttfb-p99-ms")
	b.ReportMetric(ms(stock.percentile(0.5)-direct.percentile(0.5)), "stock-added-p50-ms")
	b.ReportMetric(ms(stock.percentile(0.99)-direct.percentile(0.99)), "stock-added-p99-ms")
	b.ReportMetric((n1-n0)/float64(n)*1e6, "node-cpu-us/req")
	b.ReportMetric((n1-n0)/(p1-p0), "cpu/stockproxy")
	b.ReportMetric((n1-n0+e3-e2)/(e1-e0), "cpu/direct")
	b.ReportMetric(node.rss(b)/rss, "rss-end/half")
	b.ReportMetric(node.rss(b)/(1<<20), "rss-MiB")
	b.ReportMetric(float64(stock.broken), "stock-broken")
}

// waitReady waits until every model of the node at url is ready.
func waitReady(t testing.TB, url string) {
	t.Helper()
	for deadline := time.Now().Add(longWait); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(url + "/readyz")
		if err != nil {
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s is not ready", url)
}
