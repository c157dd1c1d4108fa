package appliance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"viiwork/engine/enginetest"
	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// textOf is the prompt of a chat request.
func textOf(body []byte) string {
	var q struct{ Messages []struct{ Content string } }
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		return ""
	}
	return q.Messages[0].Content
}

// BenchmarkMeshIdle prints what a node costs that has nothing to do: processor time of this process, fake engines
// included, and bytes on the loopback interface, whoever sent them. Twenty nodes that do not know each other are the
// peer to measure against. Do nothing else on the machine meanwhile.
func BenchmarkMeshIdle(b *testing.B) {
	var cost [2]struct{ cpu, bytes float64 }
	for i, met := range []bool{false, true} {
		all := twenty(b, met)
		var leave []func() error
		for _, f := range all {
			leave = append(leave, f.here(b))
		}
		want := 1
		if met {
			want = len(all)
		}
		for _, f := range all {
			holds(b, "every model is listed", func() bool { return len(f.hosts()) == want })
		}
		time.Sleep(5 * time.Second) // what a meeting costs is over
		const window = 10 * time.Second
		cpu, bytes := selfCPU(b), loopbackBytes(b)
		time.Sleep(window)
		cost[i].cpu = (selfCPU(b) - cpu) / window.Seconds() / float64(len(all))
		cost[i].bytes = (loopbackBytes(b) - bytes) / window.Seconds() / float64(len(all))
		together(b, leave)
	}
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(cost[1].cpu*1000, "cpu-ms/s/node")
	b.ReportMetric(cost[0].cpu*1000, "alone-cpu-ms/s/node")
	b.ReportMetric(cost[1].bytes/1024, "KiB/s/node")
	b.ReportMetric(cost[0].bytes/1024, "alone-KiB/s/node")
}

// selfCPU is the processor time this process has used, in seconds.
func selfCPU(b *testing.B) float64 {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		b.Skip("needs /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // USER_HZ, 100 on every Linux we build for
}

// loopbackBytes is what the loopback interface has carried.
func loopbackBytes(b *testing.B) float64 {
	dev, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		b.Skip("needs /proc: ", err)
	}
	_, rest, found := strings.Cut(string(dev), "lo:")
	if !found {
		b.Skip("no loopback interface")
	}
	n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return n
}

// BenchmarkForward prints the time of a small request that is forwarded, beside a bare HTTP round trip between two
// devices of the same network and beside the same request at the node that runs it.
func BenchmarkForward(b *testing.B) {
	b.Run("lan", func(b *testing.B) {
		engine := fakeEngine(b, enginetest.Options{Slots: 4, Model: "m"})
		all := lanFellows(b, 2, func(i int) []string {
			return [][]string{nil, {served("m", engine.URL(), 4)}}[i]
		})
		var pair []*tsnode.Node
		for i := range 2 {
			pair = append(pair, benchDevice(b, tsnode.Config{Network: tsnode.LAN, Name: fmt.Sprint("bare", i), Host: fmt.Sprintf("127.0.0.%d", 40+i),
				Seeds: []string{fmt.Sprintf("127.0.0.%d", 41-i)}, StateDir: b.TempDir()}))
		}
		compare(b, all, pair, portAt("127.0.0.41"))
	})
	b.Run("tailnet", func(b *testing.B) {
		control, err := localcontrol.Start(localcontrol.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(control.Close)
		engine := fakeEngine(b, enginetest.Options{Slots: 4, Model: "m"})
		var all []*fellow
		for i := range 2 {
			f := &fellow{name: fmt.Sprint("n", i), dir: b.TempDir(), control: control.URL(), local: fmt.Sprintf("127.0.0.1:%d", portAt("127.0.0.1"))}
			if i == 1 {
				f.models = []string{served("m", engine.URL(), 4)}
			}
			all = append(all, f)
		}
		var pair []*tsnode.Node
		for i := range 2 { // not called as ours are, so that the nodes leave them alone
			pair = append(pair, benchDevice(b, tsnode.Config{Network: tsnode.Tailnet, Name: fmt.Sprint(i), Prefix: "bare-",
				ControlURL: control.URL(), StateDir: b.TempDir(), Getenv: func(string) string { return "" }}))
		}
		compare(b, all, pair, 80)
	})
}

// benchDevice is a device that no node has, running until the benchmark ends.
func benchDevice(b *testing.B, cfg tsnode.Config) *tsnode.Node {
	b.Helper()
	cfg.APIPort, cfg.GossipPort = 8086, 7946
	n, err := tsnode.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	b.Cleanup(func() { stop(); <-ended })
	<-n.Ready()
	return n
}

// compare measures the three in turns, so that whatever else the machine does hits all of them.
func compare(b *testing.B, all []*fellow, pair []*tsnode.Node, port int) {
	for _, f := range all {
		f.spawn(b)
	}
	holds(b, "the entry knows the model", func() bool { return all[0].sees("m") == 1 })
	l, err := pair[1].ListenStream(port)
	if err != nil {
		b.Fatal(err)
	}
	reply := []byte(strings.Repeat("x", 600)) // about as long as an answer
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(reply)
	})}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	kept := &http.Client{Transport: &http.Transport{}}
	between := &http.Client{Transport: &http.Transport{DialContext: pair[0].DialContext}}
	b.Cleanup(kept.CloseIdleConnections)
	b.Cleanup(between.CloseIdleConnections)
	ask, _ := json.Marshal(question("m", "x", 1, false))
	bare := "http://" + net.JoinHostPort(pair[1].Addr().String(), strconv.Itoa(port))
	holds(b, "the bare devices know each other", func() bool { _, err := roundTrip(between, bare, ask); return err == nil })
	ways := []struct {
		client *http.Client
		url    string
	}{{between, bare}, {kept, all[0].url() + "/v1/chat/completions"}, {kept, all[1].url() + "/v1/chat/completions"}}
	var took [3][]time.Duration
	round := func(keep bool) {
		for i, w := range ways {
			d, err := roundTrip(w.client, w.url, ask)
			if err != nil {
				b.Fatal(w.url, err)
			}
			if keep {
				took[i] = append(took[i], d)
			}
		}
	}
	for range 100 {
		round(false)
	}
	for b.Loop() {
		round(true)
	}
	p50 := func(i int) float64 {
		slices.Sort(took[i])
		return took[i][len(took[i])/2].Seconds() * 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p50(0), "bare-p50-ms")
	b.ReportMetric(p50(1), "forward-p50-ms")
	b.ReportMetric(p50(2), "local-p50-ms")
	b.ReportMetric(p50(1)/p50(0), "forward/bare")
	b.ReportMetric((p50(1)-p50(2))/p50(0), "(forward-local)/bare")
}

func roundTrip(client *http.Client, url string, body []byte) (time.Duration, error) {
	begun := time.Now()
	answer, err := client.Post(url, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, err
	}
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d", answer.StatusCode)
	}
	return time.Since(begun), nil
}
