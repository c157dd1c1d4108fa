package appliance_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"viiwork/engine/enginetest"
)

// Of a page: how it is watched, how often it drew, and the longest it was busy.
const (
	watched = `window.busy = []; window.frames = 0;
new PerformanceObserver((l) => busy.push(...l.getEntries().map((e) => e.duration))).observe({ type: 'longtask' });
const count = () => { frames++; requestAnimationFrame(count); };
count(); performance.now()`
	longest = `Math.max(0, ...busy)`
)

// BenchmarkPagesOfAMesh prints how the pages of a mesh of 20 nodes with 50 requests in flight are drawn, nodes, engines,
// clients and browser all on this machine: of each page, at its top and further down, the frames a second, and the longest
// time in which it could do nothing else (0 = less than 50 ms, which is when a browser begins to note it); and what its
// stream of changes weighs. Do nothing else on the machine meanwhile.
func BenchmarkPagesOfAMesh(b *testing.B) {
	if testing.Short() {
		b.Skip("takes six minutes")
	}
	all := lanFellows(b, 20, func(int) []string {
		return []string{served("m", fakeEngine(b, enginetest.Options{Slots: 4, Model: "m", PrefillTPS: 3000, DecodeTPS: 20, PromptCache: 8}).URL(), 4)}
	})
	for _, f := range all {
		f.here(b)
	}
	for _, f := range all {
		holds(b, "twenty machines serve", func() bool { return f.sees("m") == len(all) })
	}
	over := atomic.Bool{}
	var asking sync.WaitGroup
	for c := range 50 {
		asking.Go(func() {
			for turn := 0; !over.Load(); turn++ {
				talk := fmt.Sprintf("%d-%d", c, turn/6)
				all[c%len(all)].chat("", question("m", "conversation "+talk+strings.Repeat(" of many words", 200), 200, true), "X-Session-Id", talk, "X-Viiwork-Task", "agent")
			}
		})
	}
	for b.Loop() { // it takes back what was reported before
	}
	const window = 20 * time.Second // of watching, which is the measurement itself
	tab := newBrowser(b)
	tab.size(1440, 900, true)
	at := all[0].url()
	for _, page := range []string{"home", "mesh", "requests", "sessions", "kv", "models"} {
		for place, down := range map[string]string{"top": "0", "below": "1300"} {
			tab.do(chromedp.Navigate(at + "/" + strings.TrimPrefix(page, "home")))
			tab.comes(page+" is there", `document.readyState == "complete" && (!document.querySelector("[data-list]") || document.getElementById("live").dataset.v == "live")`)
			began := eval[float64](tab, "scrollTo(0, "+down+"); "+watched)
			time.Sleep(window)
			what := fmt.Sprintf("-%s-%s", page, place)
			b.ReportMetric(eval[float64](tab, "1000 * frames / (performance.now() - "+fmt.Sprint(began)+")"), "fps"+what)
			b.ReportMetric(eval[float64](tab, longest), "busy-ms"+what)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(streamed(b, at+"/api/events?kinds=totals,machines,cards,engines,slots,requests,firsts,warnings,turns", 30*time.Second)/1024, "KiB/min")
	over.Store(true)
	asking.Wait()
}

// streamed is how many bytes a minute come at an address.
func streamed(b *testing.B, url string, window time.Duration) (bytes float64) {
	ctx, cancel := context.WithTimeout(b.Context(), window)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadSlice('\n')
		bytes += float64(len(line))
		if err != nil && ctx.Err() != nil {
			return bytes * time.Minute.Seconds() / window.Seconds()
		}
	}
}
