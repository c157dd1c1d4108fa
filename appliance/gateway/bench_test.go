package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/engine"
	"viiwork/engine/enginetest"
	"viiwork/engine/llama"
)

// BenchmarkStream64KiB compares streams of 64 tokens with 64 KiB of prompt through the gateway with the same ones
// straight to the engine, sixteen at a time.
func BenchmarkStream64KiB(b *testing.B) {
	f := enginetest.New(enginetest.Options{Slots: 16, Context: 1 << 20, Model: "m", KeepRequests: 1})
	b.Cleanup(f.Close)
	body := []byte(`{"model":"m","stream":true,"max_tokens":64,"messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 5400) + `"}]}`)
	n := start(b, model("m", 16, f.URL())).ready()
	for _, target := range []struct{ name, url string }{{"direct", f.URL()}, {"gateway", n.url}} {
		b.Run(target.name, func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // an engine closes after a stream
			b.ReportAllocs()
			var wg sync.WaitGroup
			turns := make(chan struct{})
			for range 16 {
				wg.Go(func() {
					for range turns {
						streamOnce(b, client, target.url, body)
					}
				})
			}
			for b.Loop() {
				turns <- struct{}{}
			}
			close(turns)
			wg.Wait()
		})
	}
}

// BenchmarkHop compares small requests to the node that runs them with the same ones through another node.
func BenchmarkHop(b *testing.B) {
	f := enginetest.New(enginetest.Options{Slots: 4, Model: "m", KeepRequests: 1})
	b.Cleanup(f.Close)
	fl := newFleet(b, nil, spec{change: patient}, spec{models: model("m", 4, f.URL())})
	for i, name := range []string{"hop", "direct"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if r := fl.peers[i].post("/v1/chat/completions", chat("m", "hi", "")); r.status != 200 {
					b.Fatalf("%d %s", r.status, r.body)
				}
			}
		})
	}
}

func streamOnce(b *testing.B, client *http.Client, url string, body []byte) {
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.HasSuffix(all, []byte("data: [DONE]\n\n")) {
		b.Errorf("%d %v: …%.200s", resp.StatusCode, err, all[max(0, len(all)-200):])
	}
}

// BenchmarkLook64Waiters is what a look costs an entry at which 64 requests wait for a slot of 16 members with five backends
// each. Changes make it at most a hundred times a second: at 1 ms each they take a tenth of a core.
func BenchmarkLook64Waiters(b *testing.B) {
	rate := 200.0
	var members []mesh.NodeState
	for i := range 16 {
		m := mesh.Model{Name: "m", Waiting: 4, HoldMS: 20_000, Score: 0.01, Output: 400, ThinkMS: 14_000}
		for j := range 5 {
			m.Backends = append(m.Backends, mesh.Backend{ID: fmt.Sprint("m#", j), Slots: 2, Ready: true, PrefillTPS: &rate, DecodeTPS: &rate,
				Slowdown: 0.2, Outstanding: 5000, Decoding: 1, FreeInMS: 9000, Residents: 3, Idle: 1})
		}
		id := fmt.Sprint("id-", i)
		members = append(members, mesh.NodeState{Member: mesh.Member{ID: id, Name: id}, Report: &mesh.Report{ID: id, Models: []mesh.Model{m}}, Known: []string{"m"}})
	}
	e, err := engine.New(engine.Config{Node: "one", Dialect: llama.New(http.DefaultClient)})
	if err != nil {
		b.Fatal(err)
	}
	g := gateway.New(gateway.Config{Node: "one", Engine: e, QueueMax: 64})
	look := gateway.Looking(g, agentBody(b, 128<<10, false), 64, members)
	b.ReportAllocs()
	for b.Loop() {
		look()
	}
}
