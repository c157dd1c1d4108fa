package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"viiwork/appliance/status"
	"viiwork/ui/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// evil is a text that must be shown and not obeyed.
const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`

// board is one with a row of each kind, its texts evil and its figures unknown.
func board(output int) status.Board {
	return status.Board{
		Node: evil, Version: evil, Network: "lan", Open: true, Time: time.Unix(0, 0),
		Totals:   []status.Total{{Key: "mesh"}},
		Machines: []status.Machine{{Key: "m", Name: evil, State: evil, URL: "javascript:alert(3)"}, {Key: "n", Name: "Ünïcode 机器", State: "alive", Old: true}},
		Cards:    []status.Card{{Key: "c", Name: evil}},
		Engines:  []status.Engine{{Key: "e", Backend: evil, Model: evil, Error: evil, Self: true}},
		Seats:    []status.Seat{{Key: "s", Engine: "e", State: evil}},
		Served:   []status.Served{{Key: "x", Name: evil, Aliases: evil, Hosts: evil}},
		Requests: []status.BoardRequest{
			{Key: "r", ID: "r", Live: true, Self: true, State: "generating", Task: evil, Output: &output},
			{Key: evil, ID: evil, State: "done", Error: evil},
		},
		Pairs: []status.BoardPair{{Key: "p"}}, Moves: []status.BoardMoves{{Key: "v"}}, Firsts: []status.BoardFirst{{Key: "f", Host: evil}}, Turns: []status.BoardTurn{{Key: "t", Name: evil, From: evil, To: evil, State: evil, Why: evil, Lead: evil}},
		Uses: []status.BoardUse{{Key: "u", Use: status.Use{Origin: evil}}}, Aliases: []status.BoardAlias{{Key: evil, Alias: status.Alias{Name: evil}}},
		Warnings: []status.BoardWarning{{Key: "w", Node: evil, Warning: status.Warning{Text: evil, Fix: evil}}},
	}
}

// site is one that shows board.
func site(t testing.TB, show func() status.Board) string {
	s := web.New(web.Config{
		Node: "n", Version: "1", Token: "t0ken", Board: func(context.Context) status.Board { return show() },
		Request: func(_ context.Context, id string) (status.Request, bool) {
			plan := &status.Plan{Policy: "cost", Chosen: status.Chosen{Node: evil}, Candidates: []status.Candidate{{Node: evil, Backend: evil}}}
			return status.Request{ID: id, Model: evil, Plan: plan}, id != "none"
		},
		Sessions: func(int) []status.Session {
			return []status.Session{{Session: evil, Model: evil, Replicas: []string{evil}}}
		},
		Logs: func(_ context.Context, to io.Writer, model string, tail int) error {
			fmt.Fprintln(to, evil)
			return fmt.Errorf("no log of %s", model)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return srv.URL
}

func get(t testing.TB, url string) (int, http.Header, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

var pages = []string{"/", "/mesh", "/models", "/sessions", "/requests", "/requests/r1", "/requests/none", "/kv", "/chat", "/logs", "/logs?model=x", "/aliases"}

// TestNamesAreShownAndNotObeyed: whatever a name holds is text, and an address that is none leads nowhere.
func TestNamesAreShownAndNotObeyed(t *testing.T) {
	url := site(t, func() status.Board { return board(1) })
	for _, page := range pages {
		_, _, body := get(t, url+page)
		for _, bad := range []string{"<script>alert", "<img", `href="javascript`} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q: %s", page, bad, around(body, bad))
			}
		}
		if page != "/requests/none" && !strings.Contains(body, "&lt;script&gt;alert(1)") {
			t.Errorf("%s does not show the name", page)
		}
	}
}

func around(body, what string) string {
	i := strings.Index(body, what)
	return body[max(0, i-80):min(len(body), i+80)]
}

// TestPagesAreWholeWithoutAScript: what there is stands in the page as it comes, and a page that nothing is known for, too.
func TestPagesAreWholeWithoutAScript(t *testing.T) {
	var empty atomic.Bool
	url := site(t, func() status.Board {
		if empty.Load() {
			return status.Board{Node: "n"}
		}
		return board(4711)
	})
	for _, page := range pages {
		code, head, body := get(t, url+page)
		if want := map[bool]int{true: 404, false: 200}[page == "/requests/none"]; code != want {
			t.Errorf("%s: %d", page, code)
		}
		policy := head.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", page, policy)
		}
		for _, bad := range []string{"style=", "onclick", "<script>", "http://", "https://"} {
			if strings.Contains(strings.ReplaceAll(body, evil, ""), bad) {
				t.Errorf("%s has %s: %s", page, bad, around(body, bad))
			}
		}
	}
	for page, want := range map[string]string{"/mesh": "Ünïcode 机器", "/requests": "4.7 k", "/": "generating", "/models": "–"} {
		if _, _, body := get(t, url+page); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q", page, want)
		}
	}
	empty.Store(true)
	for _, page := range pages {
		if code, _, body := get(t, url+page); code >= 500 || !strings.Contains(body, "<main") {
			t.Errorf("%s of an empty mesh: %d", page, code)
		}
	}
}

// TestOnlyAssetsAreGivenOut, by name, and nothing beside them.
func TestOnlyAssetsAreGivenOut(t *testing.T) {
	url := site(t, func() status.Board { return board(1) })
	for path, want := range map[string]int{
		"/assets/app.js": 200, "/assets/app.css": 200, "/assets/uplot.js": 200, "/assets/uplot.LICENSE.txt": 404, "/assets/none.js": 404, "/assets/": 404,
		"/assets/..%2fsite.go": 404, "/assets/app": 404,
	} {
		if code, _, _ := get(t, url+path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

// events reads a stream of them until it has n, or the stream ends.
func events(t testing.TB, url string, n int) (names, data []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for len(data) < n && lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data = append(data, text)
		}
	}
	return names, data
}

// TestAHundredDashboardsMakeOneBoard: each gets the snapshot and then what has changed alone, and the board is made once for all.
func TestAHundredDashboardsMakeOneBoard(t *testing.T) {
	var made atomic.Int64
	url := site(t, func() status.Board { return board(int(made.Add(1))) })
	var all sync.WaitGroup
	begun := time.Now()
	for range 100 {
		all.Go(func() {
			names, data := events(t, url+"/api/events?kinds=requests", 3)
			if len(data) < 3 || names[0] != "snapshot" || names[1] != "patch" || names[2] != "patch" {
				t.Errorf("told %v", names)
				return
			}
			var p struct {
				Kind string
				Set  map[string]map[string]any
				Gone []string
			}
			if err := json.Unmarshal([]byte(data[2]), &p); err != nil || p.Kind != "requests" || len(p.Set) != 1 || len(p.Set["r"]) != 1 || p.Set["r"]["output_tokens"] == nil {
				t.Errorf("%s: %v", data[2], err)
			}
		})
	}
	all.Wait()
	if n, most := made.Load(), 5+int64(time.Since(begun)/(100*time.Millisecond)); n > most { // newcomers bring it forward, ten times a second at most
		t.Errorf("the board was made %d times for 100 dashboards that were told 3 times each, want %d at most", n, most)
	}
}

// TestWhoDoesNotReadIsLetGo, and holds nobody up: the others are told all.
func TestWhoDoesNotReadIsLetGo(t *testing.T) {
	h := web.MakeHub()
	idle, keen := h.Join(), h.Join("requests")
	for i := range web.MaxBehind + 2 {
		h.Tell(board(i), board(i+1))
		if text, ok := keen.Heard(); !ok || !strings.Contains(text, fmt.Sprintf(`"output_tokens":%d`, i+1)) {
			t.Fatalf("tick %d: %q, %t", i, text, ok)
		}
	}
	for range web.MaxBehind {
		if _, ok := idle.Heard(); !ok {
			t.Fatal("what it was told before is lost")
		}
	}
	if _, ok := idle.Heard(); ok {
		t.Error("it is still waited for")
	}
}

// TestOneAddressKeepsNobodyOut: it has its share of those who may listen, whatever ports it comes from.
func TestOneAddressKeepsNobodyOut(t *testing.T) {
	h := web.MakeHub()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	listen := func(from string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.Serve(w, r)
		return w
	}
	for i := range web.MaxOfOne {
		all.Go(func() { listen(fmt.Sprintf("192.0.2.1:%d", 1000+i)) })
	}
	for h.Listening() < web.MaxOfOne {
		time.Sleep(time.Millisecond)
	}
	for _, again := range []string{"192.0.2.1:9", "[::ffff:192.0.2.1]:9"} {
		if w := listen(again); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status %d", again, w.Code)
		}
	}
	for i, from := range []string{"192.0.2.2:1", "[2001:db8::1]:1", "@"} {
		all.Go(func() { listen(from) })
		for tries := 0; h.Listening() < web.MaxOfOne+i+1; tries++ {
			if tries > 60_000 {
				t.Fatalf("%s is kept out", from)
			}
			time.Sleep(time.Millisecond)
		}
	}
	leave()
	all.Wait()
	if n := h.Listening(); n != 0 {
		t.Errorf("%d listen still", n)
	}
}

// pipes is a listener whose connections hold nothing between their ends.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestPagesThatNobodyTakesAreGivenUp: each would be kept whole for as long as its browser is there.
func TestPagesThatNobodyTakesAreGivenUp(t *testing.T) {
	for _, path := range []string{"/mesh", "/api/board", "/assets/uplot.js", "/api/events"} {
		synctest.Test(t, func(t *testing.T) {
			s := web.New(web.Config{Node: "n", Board: func(context.Context) status.Board { return busyMesh(1) }})
			server, line := &http.Server{Handler: s}, make(pipes, 1)
			over := make(chan error)
			go func() { over <- server.Serve(line) }()
			here, there := net.Pipe()
			line <- there
			fmt.Fprintf(here, "GET %s HTTP/1.1\r\nHost: n\r\n\r\n", path)
			time.Sleep(time.Minute)
			_ = here.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := io.Copy(io.Discard, here); err != nil {
				t.Errorf("after a minute %s is still there to be taken: %d bytes, %v", path, n, err)
			}
			here.Close()
			close(line)
			server.Close()
			<-over
		})
	}
}

// TestRowsThatAreGoneAreTold, and nothing where nothing has changed.
func TestRowsThatAreGoneAreTold(t *testing.T) {
	h := web.MakeHub()
	l := h.Join()
	h.Tell(board(1), board(1))
	l.Heard() // the snapshot
	h.Tell(board(1), board(1))
	if text, _ := l.Heard(); text != "" {
		t.Errorf("told of nothing: %s", text)
	}
	less := board(1)
	less.Machines = less.Machines[:1]
	h.Tell(board(1), less)
	if text, _ := l.Heard(); text != "event: patch\ndata: {\"kind\":\"machines\",\"gone\":[\"n\"]}\n\n" {
		t.Errorf("told %q", text)
	}
}

// busyMesh is a mesh of 20 machines with 8 slots each and 50 requests under way, at second i.
func busyMesh(i int) status.Board {
	b := status.Board{Node: "n00", Totals: []status.Total{{Key: "mesh", Running: 50, OutputTPS: ptr(900 + float64(i))}}}
	for n := range 20 {
		name := fmt.Sprintf("n%02d", n)
		b.Machines = append(b.Machines, status.Machine{Key: name, Name: name, State: "alive", Slots: ptr(8), Free: ptr(i % 8), Watts: ptr(float64(300 + i%9))})
		for s := range 8 {
			b.Seats = append(b.Seats, status.Seat{Key: fmt.Sprint(name, s), Engine: name, Node: name, State: "decode", Session: "0123456789abcdef", Tokens: ptr(4000 + 40*i + s)})
		}
	}
	for r := range 50 {
		b.Requests = append(b.Requests, status.BoardRequest{
			Key: fmt.Sprint("r", r), Live: true, State: "generating", Output: ptr(40 * i), OutputTPS: ptr(40 + float64(i%10)/10), Task: strings.Repeat("agent", 8),
		})
	}
	return b
}

func ptr[T any](v T) *T { return &v }

// TestABusyMeshIsLessThanAMegabyteAMinute: twenty machines, every slot and 50 requests changing each second.
func TestABusyMeshIsLessThanAMegabyteAMinute(t *testing.T) {
	h := web.MakeHub()
	l := h.Join()
	h.Tell(busyMesh(0), busyMesh(0))
	l.Heard()
	all := 0
	for i := range 60 {
		h.Tell(busyMesh(i), busyMesh(i+1))
		text, _ := l.Heard()
		all += len(text)
	}
	t.Logf("%d bytes a minute", all)
	if all > 1<<20 || all < 60*1000 {
		t.Errorf("%d bytes a minute", all)
	}
}

// BenchmarkTell is what a second of that mesh costs the node: one board's changes, for 100 dashboards.
func BenchmarkTell(b *testing.B) {
	h := web.MakeHub()
	var all []*web.Listener
	for range 100 {
		all = append(all, h.Join())
	}
	for i := 0; b.Loop(); i++ {
		h.Tell(busyMesh(i), busyMesh(i+1))
		for _, l := range all {
			l.Heard()
		}
	}
}
