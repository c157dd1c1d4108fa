package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/gateway"
)

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

// good is an answer like many.
var good = gateway.Work{Prompt: 2000, Cached: 0, Output: 400, Prefill: 500, Decode: 25, Streams: 1, First: 4 * time.Second}

func measuring() gateway.Measuring { return gateway.NewMeasuring(nil, "") }

func TestRatesAreWhatEnginesShow(t *testing.T) {
	m := measuring()
	for range 20 {
		m.Answered("m", "m#0", good)
		slow := good
		slow.Streams, slow.Decode = 3, 25/1.4 // 20 % for each stream more
		m.Answered("m", "m#0", slow)
	}
	told := m.Tell("m")
	b := told.Backends[0]
	if b.PrefillTPS == nil || !near(*b.PrefillTPS, 500, .02) || b.DecodeTPS == nil || !near(*b.DecodeTPS, 25, .02) || !near(b.Slowdown, .2, .05) {
		t.Errorf("%+v", b)
	}
	if !near(told.Score, 0.002, .02) || !near(told.Output, 400, .02) {
		t.Errorf("%+v", told)
	}
	m.Thought("m", 10*time.Second)
	m.Thought("m", time.Hour) // it came back, it did not think
	if got := m.Tell("m").ThinkMS; got != 10_000 {
		t.Errorf("thinks %d ms", got)
	}
}

// TestDecodeRateIsThatOfASingleStream though it was only ever seen with others.
func TestDecodeRateIsThatOfASingleStream(t *testing.T) {
	m := measuring()
	for _, k := range []float64{2, 4} {
		w := good
		w.Streams, w.Decode = k, 40/(1+0.5*(k-1))
		m.Answered("m", "m#0", w)
	}
	if b := m.Tell("m").Backends[0]; !near(*b.DecodeTPS, 40, .03) || !near(b.Slowdown, .5, .05) {
		t.Errorf("%v, %v", *b.DecodeTPS, b.Slowdown)
	}
}

func TestLargePromptsCountForMore(t *testing.T) {
	m := measuring()
	for range 10 {
		small, large := good, good
		small.Prompt, small.Prefill = 100, 2000
		large.Prompt, large.Prefill = 30_000, 300
		m.Answered("m", "m#0", small)
		m.Answered("m", "m#0", large)
	}
	if p := *m.Tell("m").Backends[0].PrefillTPS; p > 330 {
		t.Errorf("%v tokens a second", p)
	}
}

func TestImpossibleFiguresTeachNothing(t *testing.T) {
	m := measuring()
	for range 10 {
		m.Answered("m", "m#0", good)
	}
	before, _ := json.Marshal(m.Tell("m"))
	for _, rate := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e12, 1e-9} {
		w := good
		w.Prefill, w.Decode, w.Output = rate, rate, 400
		m.Answered("m", "m#0", w)
	}
	for _, w := range []gateway.Work{
		{Prompt: 2000, Cached: 1990, Output: -1, Prefill: 3, Decode: 3},                          // ten tokens
		{Prompt: -1, Cached: -1, Output: 1 << 40, Prefill: 3, Decode: 3, First: time.Second},     // not known, absurd
		{Prompt: 2000, Cached: -1, Output: 0, Prefill: 3, Decode: 3, Streams: 1, First: -1},      // nobody knows what was computed
		{Prompt: 1 << 40, Cached: 0, Output: -5, Prefill: 3, Decode: 3, First: time.Millisecond}, // absurd
	} {
		m.Answered("m", "m#0", w)
	}
	if after, _ := json.Marshal(m.Tell("m")); string(after) != string(before) {
		t.Errorf("%s\nwas %s", after, before)
	}
	freak := good
	freak.Prefill = 9e6
	m.Answered("m", "m#0", freak)
	if p := *m.Tell("m").Backends[0].PrefillTPS; p > 900 {
		t.Errorf("one freak makes it %v tokens a second", p)
	}
	for range 40 {
		slower := good
		slower.Prefill = 50
		m.Answered("m", "m#0", slower)
	}
	if p := *m.Tell("m").Backends[0].PrefillTPS; p > 60 {
		t.Errorf("a card that has become slower still counts for %v tokens a second", p)
	}
	for i := range 100 {
		w := good
		w.Streams = float64(i)
		m.Answered("m", "m#0", w)
	}
}

func TestRatesOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rates.json")
	digest, cards := "v1:aa", "rocm, Radeon VII"
	open := func() gateway.Measuring {
		return gateway.NewMeasuring(func(string) string { return digest }, cards)
	}
	m := open()
	if err := m.Load(path); err != nil {
		t.Fatal("nothing was measured yet:", err)
	}
	m.Tell("m") // as before each request
	m.Answered("m", "m#0", good)
	want, _ := json.Marshal(m.Tell("m"))
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	again := func() string {
		m := open()
		if err := m.Load(path); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(m.Tell("m"))
		return string(got)
	}
	if got := again(); got != string(want) {
		t.Errorf("%s\nwas %s", got, want)
	}
	digest, cards = "", "" // not known yet
	if got := again(); got != string(want) {
		t.Errorf("before the file was looked at: %s\nwas %s", got, want)
	}
	for _, other := range [][2]string{{"v1:bb", "rocm, Radeon VII"}, {"v1:aa", "cuda, RTX 5090"}} {
		digest, cards = other[0], other[1]
		if got := again(); strings.Contains(got, "500") {
			t.Errorf("%v: measured on something else and believed: %s", other, got)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left beside it: %v", entries)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("written though nothing is new")
	}
}

// TestDiskThatTakesNoRatesIsNamedOnce, and again only after it took them in between.
func TestDiskThatTakesNoRatesIsNamedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := measuring()
		ctx, end := context.WithCancel(t.Context())
		go m.Keep(ctx, filepath.Join(dir, "rates.json"), slog.New(slog.NewTextHandler(&log, nil)))
		wait := func(want int) {
			t.Helper()
			for range 5 {
				m.Answered("m", "m#0", good)
				time.Sleep(gateway.SaveEvery)
			}
			synctest.Wait()
			if n := strings.Count(log.String(), "\n"); n != want {
				t.Errorf("named %d times, want %d: %s", n, want, log.String())
			}
		}
		wait(1)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		wait(1)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		wait(2)
		end()
		synctest.Wait()
	})
}

func TestBrokenRatesAreMeasuredAnew(t *testing.T) {
	good := `{"version":1,"models":{"m":{"score":{"mean":0.1,"values":3},"backends":{"m#0":{"prefill":[{"mean":9,"values":1}]}}}}}`
	if err := gateway.ReadRates([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`{"version"`, `"version"`}, {`"version":1`, `"version":9`}, {`"mean":0.1`, `"mean":-1`}, {`"mean":0.1`, `"mean":1e300`},
		{`"values":3`, `"values":-3`}, {`"mean":9`, `"mean":0`}, {`"mean":9`, `"mean":1e99`}, {`{"prefill":[{"mean":9,"values":1}]}`, `null`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatal(change, "changes nothing")
		}
		if err := gateway.ReadRates([]byte(bad)); err == nil {
			t.Errorf("believed: %s", bad)
		}
	}
}

func FuzzRates(f *testing.F) {
	f.Add([]byte(`{"version":1,"models":{"m":{"score":{"mean":0.1,"values":3},"backends":{"m#0":{"prefill":[{"mean":9,"values":1}]}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "rates.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m := measuring()
		_ = m.Load(path)
		m.Answered("m", "m#0", good)
		told := m.Tell("m")
		if _, err := json.Marshal(told); err != nil {
			t.Fatal(err)
		}
		if b := told.Backends[0]; *b.PrefillTPS <= 0 || *b.DecodeTPS <= 0 || b.Slowdown < 0 {
			t.Fatalf("%+v", b)
		}
	})
}

func TestFlightsCountWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := 0
		f := gateway.NewFlights(func() { words++ })
		long, short := f.Begin("m#0"), f.Begin("m#0")
		f.Begin("m#1").Computes(99)
		long.Computes(30_000)
		short.Computes(500)
		if left, streams := f.Load("m#0"); left != 30_500 || streams != 0 {
			t.Errorf("%d tokens, %d streams", left, streams)
		}
		short.Token()
		if left, streams := f.Load("m#0"); left != 30_000 || streams != 1 {
			t.Errorf("%d tokens, %d streams", left, streams)
		}
		long.Token()
		if k := short.End(); k != 1.5 {
			t.Errorf("%v streams in the mean", k)
		}
		if k := long.End(); k != 1.5 {
			t.Errorf("%v streams in the mean", k)
		}
		if k := f.Begin("m#2").End(); k != 0 {
			t.Errorf("%v streams of one that was not generated", k)
		}
		if left, streams := f.Load("m#0"); left+streams != 0 {
			t.Errorf("%d tokens, %d streams when all have ended", left, streams)
		}
		// A prefill tells of each batch, and each would be a line to every member.
		words = 0
		fl := f.Begin("m#0")
		for left := range 1000 {
			fl.Computes(1000 - left)
			time.Sleep(10 * time.Millisecond)
		}
		if words < 20 || words > 55 {
			t.Errorf("%d words in 10 s", words)
		}
		fl.End()
	})
}
