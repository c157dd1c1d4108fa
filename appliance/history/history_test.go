package history_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/history"
	"viiwork/appliance/status"
)

// lived opens a store in dir, lets it run for that long and closes it. during is called with it at the end of that time.
func lived(t *testing.T, dir string, long time.Duration, figures func() map[string]float64, during func(*history.Store)) {
	t.Helper()
	s, err := history.Open(history.Config{Dir: dir, Sample: figures, Watts: func() (float64, bool) { return 360, true }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- s.Run(ctx) }()
	time.Sleep(long)
	synctest.Wait()
	during(s)
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func values(s status.Series, name string) (known, all int, last float64) {
	for _, l := range s.Lines {
		if l.Name != name {
			continue
		}
		for _, v := range l.Values {
			if all++; v != nil {
				known++
				last = *v
			}
		}
	}
	return known, all, last
}

// TestHistoryOutlivesARestart: what was is there, and the time in between has no figures.
func TestHistoryOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := 0.0
		figures := func() map[string]float64 { n++; return map[string]float64{"slots_busy": n, "odd": math.NaN()} }
		lived(t, dir, 10*time.Minute+5*time.Second, figures, func(s *history.Store) {
			s.Ended(answered("attic", 100, 90, 250))
		})
		time.Sleep(20 * time.Minute)
		lived(t, dir, 3*time.Minute, figures, func(s *history.Store) {
			hour, day := s.Series(false), s.Series(true)
			if known, all, _ := values(hour, "slots_busy"); known < 75 || known > 79 || all != 360 {
				t.Errorf("of the last hour %d of %d figures are known, want 60 and 18", known, all)
			}
			if known, all, _ := values(day, "slots_busy"); known < 11 || known > 14 || all != 1440 {
				t.Errorf("of the last day %d of %d figures are known", known, all)
			}
			if known, _, _ := values(hour, "odd"); known != 0 {
				t.Error("what is no number is one")
			}
			firsts := s.Firsts()
			if len(firsts) != 2 || history.Count(firsts[0].Counts) != 1 || firsts[0].Class != "warm" || firsts[0].Host != "attic" {
				t.Errorf("first tokens: %+v", firsts)
			}
			uses := s.Uses("attic")
			if len(uses) != 2 || uses[0].Requests != 1 || uses[0].Prompt != 100 || uses[0].Cached != 90 {
				t.Errorf("uses: %+v", uses)
			}
			if p := s.Power([]status.GPU{{Watts: new(float64)}}); p == nil || p.KWhToday < 0.07 || p.KWhToday > 0.08 { // 360 W for 13 minutes
				t.Errorf("energy: %+v", p)
			}
		})
	})
}

func answered(host string, prompt, cached int, ms float64) status.Request {
	return status.Request{Model: "m", Entry: "attic", Node: host, Client: "laptop", Status: 200, PromptTokens: &prompt, CachedTokens: &cached, TTFTMS: &ms}
}

// TestBrokenFilesCostWhatTheyHold and nothing else: it opens, and goes on.
func TestBrokenFilesCostWhatTheyHold(t *testing.T) {
	garbage := map[string]string{
		"noise": strings.Repeat("\x00\xff{\"t\":1e99}\n[", 5000), "empty": "", "list": `["a","a"]`, "names": `["` + strings.Repeat("x", 300) + `"]`, "control": `["a\u0007"]`,
		"days":  `{"days":{"2026-01-01":null,"x":{"by":{"a":null}}}}`,
		"turns": strings.Repeat(`{"t":9999999999,"m":"m","h":"h","c":"warm","f":-1}`+"\n", 100) + strings.Repeat("x", 9000),
	}
	for name, text := range garbage {
		for _, file := range []string{"series.bin", "series.json", "turns.log", "turns.old", "uses.json"} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					lived(t, dir, 2*time.Minute, func() map[string]float64 { return map[string]float64{"a": 1} }, func(s *history.Store) {
						s.Ended(answered("h", 10, 0, 20))
						if known, _, last := values(s.Series(false), "a"); known == 0 || last != 1 {
							t.Error("it takes no figures")
						}
						if n := len(s.Firsts()); n != 2 {
							t.Errorf("%d kinds of first tokens", n)
						}
					})
				})
			})
		}
	}
}

// TestHistoryStaysWithin16MiB, however many series, origins and requests there are, for a day and more.
func TestHistoryStaysWithin16MiB(t *testing.T) {
	if testing.Short() {
		t.Skip("three full hours take up to a minute: left out by -short alone")
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		round := 0
		figures := func() map[string]float64 {
			round++
			all := make(map[string]float64, 300)
			for i := range 300 {
				all[fmt.Sprintf("%d %s %d", round/30, strings.Repeat("ü", 80), i)] = float64(i)
			}
			return all
		}
		lived(t, dir, 3*time.Hour, figures, func(s *history.Store) {
			for i := range 80_000 {
				r := answered("h", 100, i%100, float64(i))
				r.Model, r.Client = strings.Repeat("m", 190), fmt.Sprintf("%d%s", i%5000, strings.Repeat("c", 180))
				s.Ended(r)
				if i%200 == 0 {
					time.Sleep(time.Second)
				}
			}
			time.Sleep(2 * time.Minute)
		})
	})
	var all int64
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		all += info.Size()
		t.Logf("%s: %d bytes", f.Name(), info.Size())
	}
	if all > 16<<20 || all < 4<<20 {
		t.Errorf("%d bytes", all)
	}
}

// TestQuantilesOfNodesAdd: counts of two nodes give what all of their times give.
func TestQuantilesOfNodesAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []int
		for node := range 2 {
			s, err := history.Open(history.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 500 {
				s.Ended(answered("h", 100, 0, float64(10*(2*i+node+1)))) // 10, 20 … 10,000 ms between them
			}
			for _, f := range s.Firsts() {
				if f.Window == "1h" {
					all = history.Add(all, f.Counts)
				}
			}
		}
		for share, want := range map[float64]float64{0.5: 5000, 0.95: 9500} {
			if q := history.Quantile(all, share); q == nil || *q < want*0.87 || *q > want*1.13 {
				t.Errorf("%.2f of them: %v, want about %.0f", share, q, want)
			}
		}
		if history.Quantile(nil, 0.5) != nil || len(history.Add(nil, []int{1, -1, 5})) != 1 {
			t.Error("nothing has a quantile, or a count below zero is added")
		}
	})
}

// FuzzHistoryFiles: whatever the files hold, they are read within bounds or left.
func FuzzHistoryFiles(f *testing.F) {
	f.Add([]byte(`["a","b"]`), []byte(`{"t":1,"m":"m","h":"h","c":"","f":3}`), []byte(`{"days":{"2026-01-01":{"by":{"a":{"requests":1}},"kwh":1}}}`))
	f.Fuzz(func(t *testing.T, names, turns, uses []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"series.json": names, "series.bin": turns, "turns.log": turns, "uses.json": uses} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := history.Open(history.Config{Dir: dir, Sample: func() map[string]float64 { return nil }, Watts: func() (float64, bool) { return 0, false }})
		if err != nil {
			t.Fatal(err)
		}
		s.Ended(answered("h", 1, 1, 1))
		_, _, _ = s.Firsts(), s.Uses("n"), s.Series(true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWhatIsNoFileKeepsNobodyWaiting: a pipe in the place of any of the files neither holds up the start nor what is kept.
func TestWhatIsNoFileKeepsNobodyWaiting(t *testing.T) {
	for _, file := range []string{"series.bin", "series.json", "turns.log", "turns.old", "uses.json"} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, file), 0o600); err != nil {
			t.Skip("this system makes no pipes:", err)
		}
		opened := make(chan error, 1)
		go func() {
			s, err := history.Open(history.Config{Dir: dir, Sample: func() map[string]float64 { return nil }, Watts: func() (float64, bool) { return 1, true }})
			if err == nil {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				s.Ended(answered("h", 10, 0, 20))
				err = s.Run(ctx)
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			if err != nil {
				t.Errorf("a pipe as %s: %v", file, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("a pipe as %s keeps it waiting", file)
		}
	}
}

// TestLinesBehindATornOneAreRead: what a kill or a lost write leaves in the middle of the log costs itself only.
func TestLinesBehindATornOneAreRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		none := func() map[string]float64 { return nil }
		begun := func() { // one turn in each life
			lived(t, dir, time.Minute, none, func(s *history.Store) { s.Ended(answered("h", 10, 0, 20)) })
		}
		begun()
		log, err := os.OpenFile(filepath.Join(dir, "turns.log"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.WriteString(strings.Repeat("\x00", 8<<10)); err != nil { // a file that was made longer, and then the power went
			t.Fatal(err)
		}
		log.Close()
		begun()
		begun()
		lived(t, dir, time.Minute, none, func(s *history.Store) {
			for _, f := range s.Firsts() {
				if n := history.Count(f.Counts); n != 3 {
					t.Errorf("%d turns of three are known over %s", n, f.Window)
				}
			}
		})
	})
}

// TestHistoryStaysWithinItsFolder: neither what somebody else made long nor what kills leave behind makes it larger than it may be.
func TestHistoryStaysWithinItsFolder(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 { // one of each kill
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(".new-", i)), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"series.bin", "series.json", "turns.log", "uses.json"} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Skip("this file system has no such files:", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		lived(t, dir, 5*time.Minute, func() map[string]float64 { return map[string]float64{"a": 1} }, func(s *history.Store) { s.Ended(answered("h", 10, 0, 20)) })
	})
	all := int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all += info.Size()
		}
	}
	if all > 16<<20 {
		t.Errorf("it takes %d MiB", all>>20)
	}
}

// TestFirstsOfManyKindsAreTheSameOnesEachTime, and those there is most of.
func TestFirstsOfManyKindsAreTheSameOnesEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lived(t, t.TempDir(), time.Second, func() map[string]float64 { return nil }, func(s *history.Store) {
			for i := range 3000 {
				s.Ended(answered(fmt.Sprint("h", i), 10, 0, 20))
			}
			for range 5 {
				s.Ended(answered("busy", 10, 0, 20))
			}
			before := s.Firsts()
			time.Sleep(10 * time.Second)
			after := s.Firsts()
			if len(before) > 1000 || before[0].Host != "busy" || before[1].Host != "busy" {
				t.Fatalf("%d kinds, the first %+v", len(before), before[0])
			}
			for i := range before {
				if before[i].Host != after[i].Host || before[i].Window != after[i].Window {
					t.Fatalf("the %d. is another one: %+v, %+v", i, before[i], after[i])
				}
			}
		})
	})
}

// TestFiguresOfOthersStandAtOurTimes: a member whose clock is years off, or that tells nonsense of its times, has its figures
// where everybody's are, for a page makes a place for each moment from the first to the last.
func TestFiguresOfOthersStandAtOurTimes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)
	for _, day := range []bool{false, true} {
		n := 360
		if day {
			n = 1440
		}
		for _, theirs := range []status.Series{{From: 0, Step: 0}, {From: -1 << 62, Step: 10}, {From: now.Unix(), Step: -1}} {
			theirs.Lines = []status.Line{{Name: "a", Values: make([]*float64, n)}, {Name: "b", Values: make([]*float64, n+1)}, {Name: "c"}}
			got := history.Aligned(theirs, now, day)
			last := time.Unix(got.From+int64((n-1)*got.Step), 0)
			if len(got.Lines) != 1 || got.Lines[0].Name != "a" || last.After(now) || now.Sub(last) > 2*time.Minute || got.Step*n != 3600 && got.Step*n != 86400 {
				t.Errorf("%+v: from %d by %d, %d lines", theirs, got.From, got.Step, len(got.Lines))
			}
		}
	}
	if got := history.Aligned(status.Series{}, now, false); got.Lines == nil {
		t.Error("no lines are null")
	}
}
