package web_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"viiwork/appliance/status"
)

// churn is a mesh whose requests come, go on, end and go from one look to the next, until it is told to stop.
type churn struct {
	mu    sync.Mutex
	rng   *rand.Rand
	turns int
	still bool
	last  int
	all   []status.BoardRequest
}

func (c *churn) board() status.Board {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.still {
		c.turn()
	}
	return status.Board{Node: "n", Network: "lan", Requests: append([]status.BoardRequest(nil), c.all...), Totals: []status.Total{{Key: "mesh"}}}
}

// ends stops the changes after so many, and tells whether it has.
func (c *churn) ends(turns int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.still = c.turns >= turns
	return c.still
}

// turn ends some, takes some away from the middle, lets the others go on and adds new ones: about 90 live, 120 ended.
func (c *churn) turn() {
	c.turns++
	kept := c.all[:0:0]
	for _, r := range c.all {
		if c.rng.IntN(12) == 0 && !r.Live {
			continue
		}
		if r.Live {
			more := *r.Output + 1 + c.rng.IntN(30)
			r.Output = &more
			if c.rng.IntN(4) == 0 {
				r.Live, r.State = false, "done"
			}
		}
		kept = append(kept, r)
	}
	for range 10 + c.rng.IntN(30) {
		c.last++
		key := fmt.Sprintf("r%05d", c.rng.IntN(100_000)) + fmt.Sprint(c.last)
		kept = append(kept, status.BoardRequest{Key: key, ID: key, Live: true, State: "generating", Output: ptr(0), Task: fmt.Sprint("task ", c.last), Time: time.Unix(int64(c.last), 0)})
	}
	c.all = kept
}

// figures are the rows of both lists in words, but for the times, which go on.
const figures = `((page) => [...page.querySelectorAll('[data-list="requests"]')].map((list) => [...list.querySelectorAll(':scope > [data-key]')].map((row) =>
  row.dataset.key + ':' + [...row.querySelectorAll('[data-f]:not([data-as="ago"])')].map((c) => c.textContent.trim() + (c.dataset.id || '')).join('|')).join('\n')).join('\n--\n')
  + [...page.querySelectorAll('[data-more]')].map((m) => '\n' + m.hidden).join(''))`

// TestAPageBecomesWhatTheNodeWouldMakeOfIt anew, after many changes.
func TestAPageBecomesWhatTheNodeWouldMakeOfIt(t *testing.T) {
	ctx := tab(t)
	for _, path := range []string{"/requests", "/requests?all=1"} {
		c := &churn{rng: rand.New(rand.NewPCG(1, 2))}
		for range 12 {
			c.turn()
		}
		url := site(t, c.board)
		if err := chromedp.Do(ctx, chromedp.Navigate(url+path)); err != nil {
			t.Fatal(err)
		}
		look := func(script string) string {
			text, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		first := look(figures + `(document)`)
		for end := time.Now().Add(time.Minute); !c.ends(18); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody looks")
			}
		}
		var drawn, made string
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			drawn = look(figures + `(document)`)
			made = look(`fetch(location.href).then((r) => r.text()).then((text) => ` + figures + `(new DOMParser().parseFromString(text, 'text/html')))`)
			if drawn == made || time.Now().After(end) {
				break
			}
		}
		if drawn != made {
			t.Errorf("%s: drawn is\n%s\nthe node makes\n%s", path, drawn, made)
		}
		if n := look(`'' + document.querySelectorAll('[data-only="!live"] > [data-key]').length`); drawn == first || (n == "50") != (path == "/requests") {
			t.Errorf("%s: %s have ended", path, n)
		}
	}
}
