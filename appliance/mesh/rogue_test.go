package mesh_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// rogue is a pair whose second node answers the capacity with h, as a member.
func rogue(t *testing.T, h http.HandlerFunc) *node {
	web := newNetwork()
	a := newNode(t, member(1), keys(t, mesh.KeyConfig{Secret: secret}), web.DialContext)
	a.members = func() []mesh.Member { return []mesh.Member{member(2)} }
	server := &http.Server{Handler: h}
	l := web.listen(member(2).Addr)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	a.start(web.listen(a.Addr))
	t.Cleanup(func() { a.stop(); _ = server.Close(); <-done })
	return a
}

func report(free int) string {
	r := capacity(free)
	r.Wire, r.ID, r.Name, r.Version, r.Epoch, r.Seq = mesh.Wire, "n02", "node2", "2", 1, 1
	b, _ := json.Marshal(r)
	return string(b)
}

func TestGarbagePeerIsBoundedAndNamed(t *testing.T) {
	stream := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(w, body)
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"not JSON":         stream("hello\n"),
		"a null":           stream("null\n"),
		"a beat first":     stream(`{"beat":{"seq":1}}` + "\n"),
		"another's report": stream(`{"report":` + strings.ReplaceAll(report(4), "n02", "n03") + "}\n"),
		"more free":        stream(`{"report":` + report(5) + "}\n"),
		"negative":         stream(`{"report":` + report(-1) + "}\n"),
		"control codes":    stream(`{"report":` + strings.ReplaceAll(report(4), `"m"`, `"\u001b[2J"`) + "}\n"),
		"future wire":      stream(`{"report":` + strings.Replace(report(4), `"wire":2`, `"wire":3`, 1) + "}\n"),
		"wire before all":  stream(`{"report":` + strings.Replace(report(4), `"wire":2`, `"wire":0`, 1) + "}\n"),
		"a line too long":  stream(strings.Repeat("x", mesh.MaxReport+10)),
		"an endless line": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			pour(w, r)
		},
		"an endless report": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			pour(w, r)
		},
		"a web page": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"an error":   func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 500) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://10.0.0.9:1/", http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := rogue(t, h)
				time.Sleep(20 * time.Second)
				s := a.sees("n02")
				if a.free("n02") != -1 || s.Report != nil || s.Fault == "" || len(s.Fault) > 300 || strings.Contains(s.Fault, "hello") {
					t.Fatalf("%+v", s)
				}
				if w := a.watcher.Warnings(); len(w) != 1 || w[0].Fix == "" {
					t.Fatalf("warnings %+v", w)
				}
			})
		})
	}
}

func pour(w http.ResponseWriter, r *http.Request) {
	chunk := make([]byte, 64<<10)
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestFloodingPeerIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines atomic.Int32
		a := rogue(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			for r.Context().Err() == nil {
				if _, err := fmt.Fprintf(w, `{"report":%s}`+"\n", report(3)); err != nil {
					return
				}
				lines.Add(1)
			}
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if lines.Load() > 1200 || a.free("n02") != 3 { // 100 a second, and what lies in buffers
			t.Fatalf("%d lines in 10 s, free %d", lines.Load(), a.free("n02"))
		}
	})
}

func TestPreviousWireIsUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int32
		free.Store(3)
		a := rogue(t, func(w http.ResponseWriter, r *http.Request) { // it has no stream
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(report(int(free.Load())), `"wire":2`, `"wire":1`, 1))
		})
		time.Sleep(time.Second)
		if got := a.free("n02"); got != 3 {
			t.Fatalf("free %d; %+v", got, a.sees("n02"))
		}
		free.Store(1)
		for range 200 {
			time.Sleep(time.Second)
			if s := a.sees("n02"); s.Report == nil || s.Report.Wire != 1 || s.Age > 1100*time.Millisecond {
				t.Fatalf("%+v", s)
			}
		}
		if got := a.free("n02"); got != 1 {
			t.Fatalf("free %d", got)
		}
	})
}

func TestBufferedStreamFallsBackToAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := rogue(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "1" { // something on the way keeps it all
				w.Header().Set("Content-Type", "application/x-ndjson")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, report(2))
		})
		time.Sleep(5 * time.Second)
		for range 50 {
			time.Sleep(time.Second)
			if got := a.free("n02"); got != 2 {
				t.Fatalf("free %d; %+v", got, a.sees("n02"))
			}
		}
	})
}

func TestMemberWithoutRoomForAStreamIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watches atomic.Int32
		a := rogue(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "1" {
				watches.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, report(2))
		})
		time.Sleep(time.Second)
		for range 100 {
			time.Sleep(time.Second)
			if got := a.free("n02"); got != 2 {
				t.Fatalf("free %d; %+v", got, a.sees("n02"))
			}
		}
		if n := watches.Load(); n < 15 || n > 25 { // there may be room soon
			t.Fatalf("the stream was tried %d times in 101 s", n)
		}
	})
}

func TestWrongSecretIsNamedAndChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		key  mesh.KeyConfig
		want string
	}{
		"another secret": {mesh.KeyConfig{Secret: []byte("fedcba9876543210fedcba9876543210")}, "mesh_secret"},
		"open":           {mesh.KeyConfig{}, "mesh_mode"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, _ := pair(t, func(a, b *node) {
					a.keys = keys(t, c.key)
					b.members = func() []mesh.Member { return []mesh.Member{member(1)} }
				})
				time.Sleep(5 * time.Second)
				if a.free(b.ID) != -1 || b.free(a.ID) != -1 {
					t.Fatal("a stranger was told the capacity")
				}
				if w := a.watcher.Warnings(); len(w) != 1 || w[0].ID != c.want {
					t.Fatalf("warnings %+v", w)
				}
			})
		})
	}
}

func TestClockFiveMinutesOffIsCorrectedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := pair(t, func(a, _ *node) { a.now = func() time.Time { return time.Now().Add(-5 * time.Minute) } })
		time.Sleep(time.Second)
		if got := a.free(b.ID); got != 4 {
			t.Fatalf("free %d; %+v", got, a.sees(b.ID))
		}
		w := a.watcher.Warnings()
		if len(w) != 1 || w[0].ID != "mesh_clock" || !strings.Contains(w[0].Text, "node2 is 5m0s ahead") {
			t.Fatalf("warnings %+v", w)
		}
	})
}

func TestStrangeMembersAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, lb := pair(t, func(a, _ *node) {
			a.members = func() []mesh.Member {
				return []mesh.Member{member(2), {}, {ID: "x", Name: "x", Addr: "evil.example:80"}, {ID: "y", Name: "y", Addr: "0.0.0.0:80"},
					{ID: "z", Name: "\x1b[2J", Addr: "10.0.0.9:80"}, {ID: "a b", Name: "n", Addr: "10.0.0.9:80"}, member(1)}
			}
		})
		time.Sleep(5 * time.Second)
		if all := a.table.Snapshot(); len(all) != 1 || all[0].Member.ID != b.ID {
			t.Fatalf("%+v", all)
		}
		if n := lb.net.dialled("evil.example:80") + lb.net.dialled("0.0.0.0:80") + lb.net.dialled("10.0.0.9:80"); n != 0 {
			t.Fatal("dialled what is no member")
		}
	})
}
