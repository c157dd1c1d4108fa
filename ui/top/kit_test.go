package top_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/ui/top"
)

// noon is when the synthetic node's pictures are taken.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestMain is also the program that tests run on a terminal: top, over a synthetic node.
func TestMain(m *testing.M) {
	if socket := os.Getenv("TOP_TEST_STATE"); socket != "" {
		if err := top.Run(context.Background(), onTerminal(socket)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// onTerminal is top over a fleet, on this process's terminal. While a file of that name is there, the node is not.
func onTerminal(away string) top.Config {
	f := fleet(20, 50)
	get := f.get
	return top.Config{
		Mesh: true, Interval: 200 * time.Millisecond, In: os.Stdin, Out: os.Stdout, Environ: os.Environ(),
		Get: func(ctx context.Context, path string, into any) error {
			if _, err := os.Stat(away); err == nil {
				return fmt.Errorf("asking: %w", top.ErrGone)
			}
			return get(ctx, path, into)
		},
		Now:  func() time.Time { return noon },
		Logs: func(ctx context.Context, model string) (io.ReadCloser, error) { return f.logs(ctx, model) },
	}
}

// node answers what a node would.
type node struct {
	status   status.Node
	fleet    status.Fleet
	requests []status.Request
	log      string
	more     status.Board // what the other machines tell
}

// board is what the node's own documents say in the form of a board, and what the others tell.
func (n *node) board() status.Board {
	b := n.more
	b.Node = n.status.Node
	b.Totals = []status.Total{{Machines: len(n.status.Members), Alive: len(n.status.Members), Told: 1}}
	for _, m := range n.more.Machines {
		if m.Told {
			b.Totals[0].Told++
		}
	}
	for _, c := range n.status.GPUs {
		b.Cards = append(b.Cards, status.Card{Node: b.Node, Self: true, Index: c.Index, Accel: c.Accel, Name: c.Name, Model: c.Model,
			Used: c.Used, Memory: c.Memory, Busy: c.Busy, Celsius: c.Celsius, Watts: c.Watts, CapWatts: c.CapWatts})
	}
	for _, r := range n.requests {
		b.Requests = append(b.Requests, status.BoardRequest{ID: r.ID, Time: r.Time, Live: true, State: r.State, Entry: r.Entry, Node: r.Node, Model: r.Model,
			Session: r.Session, Task: r.Task, Reason: r.Reason, WaitsAt: r.WaitsAt, Place: r.Place, Prompt: r.PromptTokens, Cached: r.CachedTokens})
	}
	return b
}

func ptr[T any](v T) *T { return &v }

// fleet is a mesh of so many machines with so many requests in flight by the first.
func fleet(machines, requests int) *node {
	n := &node{status: status.Node{Node: name(0), Version: "2.0.0", Network: "lan", State: "ready", GPUs: []status.GPU{}},
		fleet: status.Fleet{View: name(0), Models: []status.FleetModel{{Name: "org/model-a"}, {Name: "org/model-b"}}}, log: "loading\nready\n"}
	for i := range machines {
		n.status.Members = append(n.status.Members, status.Member{Name: name(i), State: "alive", Version: "2.0.0", Addr: fmt.Sprintf("192.168.1.%d:8086", i+4), AgeMS: int64(i * 100)})
		m := &n.fleet.Models[i%2]
		m.Hosts = append(m.Hosts, status.FleetHost{Node: name(i), FleetFigures: status.FleetFigures{Slots: ptr(4), Busy: ptr(i % 5), Free: ptr(4 - i%5)}, Queued: ptr(i % 3), WaitMS: ptr(int64(0))})
	}
	for i := range n.fleet.Models {
		n.fleet.Models[i].FleetFigures = status.FleetFigures{Slots: ptr(2 * machines), Busy: ptr(machines), Free: ptr(machines)}
		n.fleet.Models[i].Queued = ptr(machines / 2)
	}
	for i := range 2 {
		n.status.GPUs = append(n.status.GPUs, status.GPU{Index: i, Name: "Card of 24 GiB", Accel: "cuda", Memory: ptr(int64(24 << 30)), Used: ptr(int64(14 << 30)),
			Busy: ptr(0.87), Celsius: ptr(61.0), Watts: ptr(171.0), CapWatts: ptr(350.0), Model: "org/model-a"})
	}
	slots := []status.Slot{{ID: 0, State: "busy", Session: "9c0d", Tokens: ptr(812)}, {ID: 1, State: "free"}}
	n.status.Models = []status.Model{{Name: "org/model-a", Context: 49152, Waiting: 1, Backends: []status.Backend{{ID: "org/model-a#0", State: "ready", Engine: "b1", Slots: slots, GPUs: []int{0, 1}}}}}
	for i := range requests {
		r := status.Request{ID: fmt.Sprintf("%016x", i+1), Time: noon.Add(-time.Duration(i+1) * time.Second), Entry: name(0), Node: name(i % machines), Model: "org/model-a", State: "generating", Reason: "home",
			PromptTokens: ptr(40000 - i), CachedTokens: ptr(39000 - i), Session: "9c0d00000000000" + fmt.Sprint(i%10)}
		if i%7 == 6 {
			r.State, r.Node, r.WaitsAt, r.Place, r.PromptTokens, r.CachedTokens = "queued", "", name(1), ptr(i/7+1), nil, nil
		}
		n.requests = append(n.requests, r)
	}
	return n
}

func name(i int) string { return fmt.Sprintf("node-%02d", i) }

// get answers by way of JSON, as a real node does.
func (n *node) get(_ context.Context, path string, into any) error {
	var doc any
	path, _, _ = strings.Cut(path, "?")
	switch {
	case path == "/v1/status":
		doc = n.status
	case path == "/v1/fleet/capacity":
		doc = n.fleet
	case path == "/api/requests":
		doc = n.requests
	case path == "/api/board":
		doc = n.board()
	default:
		for _, r := range n.requests {
			if path == "/api/requests/"+r.ID {
				r.Plan = &status.Plan{Policy: "cost", Chosen: status.Chosen{Node: name(0), Backend: "org/model-a#0"}, Candidates: []status.Candidate{
					{Node: name(0), Backend: "org/model-a#0", Held: 39000, Terms: status.Terms{Prefill: 5, Queue: 30}, Total: 49.1}}}
				doc = r
			}
		}
	}
	if doc == nil {
		return fmt.Errorf("there is no such request among the last ones")
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// logs says what there is and goes on until ctx ends.
func (n *node) logs(ctx context.Context, model string) (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, "first line of "+model+"\n"+n.log)
		<-ctx.Done()
		w.CloseWithError(ctx.Err())
	}()
	return r, nil
}
