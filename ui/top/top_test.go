package top_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"viiwork/appliance/status"
	"viiwork/ui/top"
)

func config(n *node) top.Config {
	return top.Config{Mesh: true, Get: n.get, Logs: n.logs, Environ: []string{"LANG=C.UTF-8"}, Now: func() time.Time { return noon }}
}

func once(t *testing.T, n *node, mesh bool) string {
	t.Helper()
	var out bytes.Buffer
	cfg := config(n)
	cfg.Once, cfg.Mesh, cfg.Out = true, mesh, &out
	if err := top.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// line is the one that begins with a text.
func line(t *testing.T, page, begins string) string {
	t.Helper()
	for l := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(l), begins) {
			return strings.TrimRight(l, "\n")
		}
	}
	t.Fatalf("no line begins with %q in\n%s", begins, page)
	return ""
}

func TestOncePrintsOnePictureOfAll(t *testing.T) {
	page := once(t, fleet(3, 2), true)
	for _, text := range []string{"12:00:00", "node-00 is ready", "MACHINE", "node-02", "org/model-b", "cuda 1", "14.0/24.0", "171/350 W", "node-00 → node-01", "98%"} {
		if !strings.Contains(page, text) {
			t.Errorf("%q is not in\n%s", text, page)
		}
	}
	if strings.Contains(page, "\x1b") {
		t.Error("a terminal's sequences in plain text")
	}
	if own := once(t, fleet(3, 2), false); !strings.Contains(own, "org/model-a#0") || strings.Contains(own, "MACHINE ") {
		t.Errorf("without --mesh it is this machine:\n%s", own)
	}
}

// TestWhatTheNodeDoesNotTellIsNoZero: a member that has not spoken, a card whose driver is silent, a request that has just come.
func TestWhatTheNodeDoesNotTellIsNoZero(t *testing.T) {
	n := fleet(2, 0)
	n.status.Members = append(n.status.Members, status.Member{Name: "quiet", State: "silent", AgeMS: -1})
	n.fleet.Models[0].Hosts = append(n.fleet.Models[0].Hosts, status.FleetHost{Node: "quiet", Stale: true, AgeMS: 9000})
	n.status.GPUs = []status.GPU{{Index: 7, Accel: "rocm"}}
	n.requests = []status.Request{{ID: "new", Time: noon, Entry: "node-00", State: "queued"}}
	page := once(t, n, true)
	for _, begins := range []string{"quiet", "rocm 7", "new"} {
		if l := line(t, page, begins); !strings.Contains(l, "–") || strings.Contains(strings.ReplaceAll(l, "0 ms", ""), " 0") {
			t.Errorf("unknown figures are shown as known: %q", l)
		}
	}
	if !strings.Contains(page, "2 of 3 machines heard") {
		t.Errorf("the sum does not say that one machine is not in it:\n%s", page)
	}
}

// TestACardThatHeatSlowsDownIsMarked, and only that one, however hot the others are.
func TestACardThatHeatSlowsDownIsMarked(t *testing.T) {
	n := fleet(1, 0)
	n.status.GPUs[0].ByHeat, n.status.GPUs[1].ByHeat, n.status.GPUs[1].Celsius = ptr(true), ptr(false), ptr(95.0)
	page := once(t, n, false)
	if l := line(t, page, "cuda 0"); !strings.Contains(l, "61°C!") {
		t.Errorf("not marked: %q", l)
	}
	if l := line(t, page, "cuda 1"); !strings.Contains(l, "95°C ") {
		t.Errorf("marked: %q", l)
	}
}

// TestTheMeshIsWhatAllMachinesTell: another one's cards and engines, and requests that never were at this one. Here they are not.
func TestTheMeshIsWhatAllMachinesTell(t *testing.T) {
	n := fleet(3, 1)
	n.more = status.Board{
		Machines: []status.Machine{{Name: "node-01", Told: true}, {Name: "node-02"}},
		Cards:    []status.Card{{Node: "node-01", Index: 3, Accel: "rocm", Name: "MI50", Used: ptr(int64(9 << 30)), Memory: ptr(int64(16 << 30)), Watts: ptr(140.0)}},
		Engines:  []status.Engine{{Node: "node-01", Backend: "org/model-b#1", State: "ready", Free: ptr(1), Slots: ptr(4), PrefillTPS: ptr(812.5)}},
		Turns:    []status.BoardTurn{{Name: "node-01", To: "v1.1.0", State: "restarting"}, {Name: "node-02", To: "v1.1.0", State: "left", Why: "it belongs to dpkg"}},
		Requests: []status.BoardRequest{
			{ID: "far", Time: noon, Live: true, State: "generating", Entry: "node-02", Node: "node-01", Model: "org/model-b", OutputTPS: ptr(41.5)},
			{ID: "over", Time: noon, State: "done", Entry: "node-02", Node: "node-01"},
		},
	}
	page := once(t, n, true)
	if l := line(t, page, "rocm 3"); !strings.Contains(l, "node-01") || !strings.Contains(l, "9.0/16.0") {
		t.Errorf("another machine's card: %q", l)
	}
	if l := line(t, page, "far"); !strings.Contains(l, "node-02 → node-01") || !strings.Contains(l, "41.5") {
		t.Errorf("a request elsewhere: %q", l)
	}
	for name, update := range map[string]string{"node-01": "v1.1.0 restarting", "node-02": "stays as it is: it belongs to dpkg"} {
		if l := line(t, page, name); !strings.HasSuffix(l, update) {
			t.Errorf("whose turn it is: %q", l)
		}
	}
	if own := once(t, n, false); strings.Contains(own, "rocm 3") || strings.Contains(own, "far ") || strings.Contains(page, "over ") {
		t.Errorf("this machine shows what is elsewhere, or the mesh what is over:\n%s", own)
	}
	x, err := top.NewScreen(t.Context(), config(n), 120, 60)
	if err != nil {
		t.Fatal(err)
	}
	x.Press(typed("j\r")...)
	for _, text := range []string{"org/model-b#1: ready, 1/4 slots free, prefill 812.5", "rocm 3: 9.0/16.0 GiB", "far  generating"} {
		if !strings.Contains(x.Frame(), text) {
			t.Errorf("%q is not said of the machine:\n%s", text, x.Frame())
		}
	}
	x.Press(typed("\x1bj\r")...)
	if !strings.Contains(x.Frame(), "It has not told of its cards lately.") {
		t.Errorf("of a machine that is silent:\n%s", x.Frame())
	}
}

func TestNamesCannotDriveTheTerminal(t *testing.T) {
	evil := "a\x1b[2J\x1b]0;x\x07b\r\n\u202ec\u200bd\x9b31m"
	n := fleet(1, 1)
	n.status.Members[0].Name, n.status.Node, n.fleet.Models[0].Name, n.requests[0].Task, n.requests[0].Model = evil, evil, evil, evil, evil
	n.status.GPUs[0].Name, n.status.Models[0].Backends[0].ID, n.status.Models[0].Backends[0].Error = evil, evil, evil
	n.status.Warnings = []status.Warning{{Text: evil, Fix: evil}}
	for _, mesh := range []bool{true, false} {
		page := once(t, n, mesh)
		for _, r := range page {
			if r == '\x1b' || r == '\x07' || r == '\r' || r == '\u202e' || r == '\u200b' || r == '\x9b' {
				t.Errorf("%q got through", r)
			}
		}
	}
	cfg, broken := config(n), false
	cfg.Get = func(ctx context.Context, path string, into any) error {
		if broken {
			return errors.New(evil)
		}
		return n.get(ctx, path, into)
	}
	x, err := top.NewScreen(t.Context(), cfg, 120, 40)
	if err != nil {
		t.Fatal(err)
	}
	broken = true
	x.Read()
	if frame := x.Frame(); !strings.Contains(frame, "trying again") || strings.Contains(frame, "\x1b[2J") || strings.ContainsAny(frame, "\x07\r\u202e\u200b\u009b") {
		t.Errorf("an error's words drive the terminal, or are not there: %q", frame)
	}
	if text := top.Clean(evil); strings.ContainsAny(text, "\x1b\x07\r\n\u202e\u200b\u009b") {
		t.Errorf("%q", text)
	}
}

func TestNamesOfAnyScriptStandInColumns(t *testing.T) {
	n := fleet(3, 0)
	n.status.Members[1].Name, n.status.Members[2].Name = "屋根裏部屋", "e\u0301te\u0301"
	page := once(t, n, true)
	at := -1
	for _, begins := range []string{"node-00", "屋根裏部屋", "e\u0301te\u0301"} {
		l := line(t, page[strings.Index(page, "MACHINE"):], begins)
		column := top.Width(l[:strings.Index(l, "alive")])
		if at < 0 {
			at = column
		}
		if column != at {
			t.Errorf("%q begins its second column at %d, not at %d", l, column, at)
		}
	}
}

// TestNothingIsWiderOrHigherThanTheScreen at any size, with whatever is opened.
func TestNothingIsWiderOrHigherThanTheScreen(t *testing.T) {
	n := fleet(20, 50)
	n.status.Members[3].Name = strings.Repeat("屋根", 40)
	n.requests[4].Task = strings.Repeat("e\u0301", 300)
	n.status.Warnings = []status.Warning{{Text: strings.Repeat("long ", 80)}}
	for _, size := range [][2]int{{200, 60}, {80, 24}, {60, 12}, {40, 8}, {21, 4}, {10, 2}, {1, 1}} {
		x, err := top.NewScreen(t.Context(), config(n), size[0], size[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, keys := range []string{"", "\t\t\tjjj", "\r", "\x1b", "m", "\r", "\x1bmssssr", "?"} {
			x.Press(typed(keys)...)
			lines := strings.Split(x.Frame(), "\n")
			if len(lines) > size[1] {
				t.Errorf("%v, after %q: %d lines", size, keys, len(lines))
			}
			for _, l := range lines[:len(lines)-1] {
				if top.Width(l) > size[0] {
					t.Errorf("%v, after %q: %d columns in %q", size, keys, top.Width(l), l)
				}
			}
		}
	}
}

// typed are the keys of a text; \t is tab, \r enter, \x1b escape.
func typed(text string) (keys []tea.KeyPressMsg) {
	for _, r := range text {
		switch r {
		case '\t':
			keys = append(keys, tea.KeyPressMsg{Code: tea.KeyTab})
		case '\r':
			keys = append(keys, tea.KeyPressMsg{Code: tea.KeyEnter})
		case '\x1b':
			keys = append(keys, tea.KeyPressMsg{Code: tea.KeyEscape})
		default:
			keys = append(keys, tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return keys
}

func TestTheChosenRowStaysChosenWhenOthersComeAndGo(t *testing.T) {
	n := fleet(5, 0)
	x, err := top.NewScreen(t.Context(), config(n), 80, 24)
	if err != nil {
		t.Fatal(err)
	}
	x.Press(typed("jj")...)
	n.status.Members = append([]status.Member{n.status.Members[0], {Name: "a-new-one", State: "alive"}}, n.status.Members[1:]...)
	x.Read()
	if x.Chosen() != "node-02" {
		t.Errorf("%s is chosen instead", x.Chosen())
	}
	n.status.Members = n.status.Members[:3]
	x.Read()
	if x.Chosen() == "" {
		t.Error("nothing is chosen after the row has gone")
	}
	n.status.Members = nil
	x.Read()
	x.Press(typed("jkG\rl\x1b\x1b")...)
	if x.Chosen() != "" {
		t.Errorf("%s is chosen of nothing", x.Chosen())
	}
}

func TestUnknownFiguresComeLastWhicheverWayIsSorted(t *testing.T) {
	n := fleet(4, 0)
	n.status.Members = append(n.status.Members[:2:2], append([]status.Member{{Name: "quiet", State: "silent", AgeMS: -1}}, n.status.Members[2:]...)...)
	x, err := top.NewScreen(t.Context(), config(n), 120, 60)
	if err != nil {
		t.Fatal(err)
	}
	x.Press(typed("ssss")...) // BUSY
	for range 2 {
		frame := x.Frame()
		if !strings.Contains(frame, "by busy") {
			t.Fatalf("not sorted by busy:\n%s", frame)
		}
		for _, other := range []string{"node-01", "node-02", "node-03"} {
			if strings.Index(frame, "quiet") < strings.Index(frame, other) {
				t.Errorf("quiet stands before %s:\n%s", other, frame)
			}
		}
		x.Press(typed("r")...)
	}
}

func TestFilterNarrowsOnePanelAndEscapeWidensIt(t *testing.T) {
	x, err := top.NewScreen(t.Context(), config(fleet(20, 5)), 120, 60)
	if err != nil {
		t.Fatal(err)
	}
	x.Press(typed("/node-07\r")...)
	machines := x.Frame()[:strings.Index(x.Frame(), "models")]
	if !strings.Contains(machines, "node-07") || strings.Contains(machines, "node-08") {
		t.Errorf("not narrowed:\n%s", machines)
	}
	x.Press(typed("/nobody\r")...)
	if !strings.Contains(x.Frame(), "none of") {
		t.Errorf("it does not say that the filter hides all:\n%s", x.Frame())
	}
	x.Press(typed("\x1b")...)
	if !strings.Contains(x.Frame(), "node-08") {
		t.Errorf("still narrowed:\n%s", x.Frame())
	}
}

func TestTheNodeMustBeThereAtFirst(t *testing.T) {
	cfg := config(fleet(1, 0))
	cfg.Get = func(context.Context, string, any) error { return top.ErrGone }
	if err := top.Run(t.Context(), cfg); !errors.Is(err, top.ErrGone) {
		t.Errorf("%v", err)
	}
}

// TestPlainTextGoesOnAndWaitsForTheNode says once that it is away, and prints no old figures meanwhile.
func TestPlainTextGoesOnAndWaitsForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fleet(1, 0)
		var mu sync.Mutex
		away := false
		out := &locked{}
		cfg := config(n)
		cfg.Out = out
		cfg.Get = func(ctx context.Context, path string, into any) error {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return fmt.Errorf("asking: %w", top.ErrGone)
			}
			return n.get(ctx, path, into)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- top.Run(ctx, cfg) }()
		set := func(v bool) { mu.Lock(); away = v; mu.Unlock() }
		time.Sleep(2500 * time.Millisecond)
		set(true)
		time.Sleep(3 * time.Second)
		set(false)
		time.Sleep(time.Second)
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if pictures, words := strings.Count(out.String(), "node-00 is ready"), strings.Count(out.String(), "does not answer"); pictures != 4 || words != 1 {
			t.Errorf("%d pictures and %d words about a node that was away once:\n%s", pictures, words, out.String())
		}
	})
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *locked) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// FuzzAnyAnswerIsShown: whatever the node says, the screen is drawn and nothing leaves it.
func FuzzAnyAnswerIsShown(f *testing.F) {
	n := fleet(2, 2)
	for _, doc := range []any{n.status, n.fleet, n.requests, n.board()} {
		text, _ := json.Marshal(doc)
		f.Add(text, 80, 24)
	}
	f.Add([]byte(`{"models":[{"backends":[{"progress":1e300}]}],"gpus":[{"memory_bytes":-1,"used_bytes":5,"busy":-3}],"members":[{}]}`), 80, 24)
	f.Add([]byte(`[{"id":"x","time":"0001-01-01T00:00:00Z","ttft_ms":1e300,"prompt_tokens":-1,"cached_tokens":5}]`), 1, 1)
	f.Fuzz(func(t *testing.T, text []byte, wide, high int) {
		wide, high = 1+abs(wide)%300, 1+abs(high)%100
		cfg := config(nil)
		cfg.Get = func(_ context.Context, _ string, into any) error {
			_ = json.Unmarshal(text, into)
			return nil
		}
		x, err := top.NewScreen(t.Context(), cfg, wide, high)
		if err != nil {
			t.Fatal(err)
		}
		for _, keys := range []string{"", "s\r", "\x1b\t\r", "\x1bm\t\t\r"} {
			x.Press(typed(keys)...)
			lines := strings.Split(x.Frame(), "\n")
			if len(lines) > high {
				t.Errorf("%d lines on a screen of %d", len(lines), high)
			}
			for _, l := range lines[:len(lines)-1] {
				if top.Width(l) > wide {
					t.Errorf("%d columns on a screen of %d: %q", top.Width(l), wide, l)
				}
			}
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

// BenchmarkFrame is one picture taken over and drawn: 20 machines, 50 requests in flight.
func BenchmarkFrame(b *testing.B) {
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			x, err := top.NewScreen(b.Context(), config(fleet(20, 50)), size[0], size[1])
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				x.Read()
				_ = x.Frame()
			}
		})
	}
}

// TestAChangeOfEnginesIsTold beside the state of the one that serves.
func TestAChangeOfEnginesIsTold(t *testing.T) {
	for want, change := range map[string]status.Change{
		"ready, new one loading 40%": {State: "loading", Progress: ptr(0.4)},
		"ready, new one failed":      {State: "failed"},
		"ready, old one draining":    {State: "draining"},
	} {
		n := fleet(1, 0)
		n.status.Models[0].Backends[0].Change = &change
		if page := once(t, n, false); !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}
