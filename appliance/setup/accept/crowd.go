package accept

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"viiwork/appliance/status"
)

const (
	above     = 4  // requests more than there are slots
	crowdMost = 64 // of a machine with hundreds of slots, that many at the most
)

// saturate sends more requests at once than this node has slots. None may be refused while a slot is free somewhere. Those that a
// slow machine refuses, since none became free in time, ask again, as clients do.
func (r *run) saturate(ctx context.Context, m Model) (Outcome, string) {
	slots, err := r.slots(ctx, m.Name)
	if err != nil {
		return Fail, err.Error()
	}
	c := &crowd{run: r, model: m.Name, size: min(slots+above, crowdMost), slots: max(slots, 1), begun: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, c.within())
	defer cancel()
	answers, faults := make([]answer, c.size), make([]error, c.size)
	var all sync.WaitGroup
	for i := range c.size {
		all.Go(func() { answers[i], faults[i] = c.ask(ctx, i) })
	}
	all.Wait()
	ran, refused := map[string]int{}, 0
	for i, a := range answers {
		switch {
		case faults[i] != nil:
			return Fail, faults[i].Error()
		case a.status == http.StatusTooManyRequests:
			refused++
		case a.status != http.StatusOK:
			return Fail, a.fault()
		default:
			ran[a.header.Get("X-Viiwork-Node")]++
		}
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(ran)) {
		parts = append(parts, fmt.Sprintf("%d on %s", ran[node], node))
	}
	detail := fmt.Sprintf("%d at once on %s: %s", c.size, counted(slots, "slot"), strings.Join(parts, ", "))
	if refused > 0 {
		return Fail, fmt.Sprintf("%s; %d were refused: is routing.queue_timeout too short for this machine?", detail, refused)
	}
	if n := c.again.Load(); n > 0 {
		detail += fmt.Sprintf("; %d had to ask again, since a slot became free only after %s", n, c.first().Round(time.Second))
	}
	return Pass, detail
}

// crowdLongest bounds how long a crowd is waited for, however slow the machine.
const crowdLongest = 20 * time.Minute

// crowd is requests for one model that are sent at once.
type crowd struct {
	run         *run
	model       string
	size, slots int
	begun       time.Time

	answered atomic.Int64 // after how many nanoseconds the first one was; 0 = none was yet
	again    atomic.Int64 // how many were refused and asked again
	said     sync.Once
}

// within is twice what it takes to answer them one by one, as fast as the one that was alone.
func (c *crowd) within() time.Duration {
	return min(max(askWithin, 2*time.Duration(c.size)*c.run.took[c.model]), crowdLongest)
}

// first is how long it took until a slot was free again, or has taken so far.
func (c *crowd) first() time.Duration {
	if d := time.Duration(c.answered.Load()); d > 0 {
		return d
	}
	return time.Since(c.begun)
}

// ask sends the i-th, and once more as long as it is refused for no other reason than the machine's own speed.
func (c *crowd) ask(ctx context.Context, i int) (answer, error) {
	for {
		asked := time.Now()
		a, err := c.run.send(ctx, http.MethodPost, completions, message(c.model, fmt.Sprintf("Say the number %d.", i)))
		if err == nil && a.status == http.StatusOK {
			c.answered.CompareAndSwap(0, max(1, int64(time.Since(c.begun))))
		}
		if err != nil || a.status != http.StatusTooManyRequests || !c.slow(time.Since(asked)) {
			return a, err
		}
		c.again.Add(1)
		c.said.Do(func() {
			if c.run.cfg.Note != nil {
				c.run.cfg.Note(fmt.Sprintf("%s: this machine takes %s or more for an answer while all slots are busy; %d are waited for, %s at most",
					c.model, c.first().Round(time.Second), c.size, c.within().Round(time.Second)))
			}
		})
		if !pause(ctx, retryAfter(a)) {
			return a, late(ctx.Err(), c.begun)
		}
	}
}

// slow tells whether a place in the line can have taken so long by the speed of the answers alone: they come in rounds, one for
// each slot. Who is refused at once has stood in no line.
func (c *crowd) slow(waited time.Duration) bool {
	rounds := (c.size + c.slots - 1) / c.slots
	return waited >= time.Second && (c.answered.Load() == 0 || waited < time.Duration(rounds)*c.first())
}

// retryAfter is when a node that refused wants to be asked again.
func retryAfter(a answer) time.Duration {
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil {
		n = 2
	}
	return time.Duration(min(max(n, 1), 30)) * time.Second
}

// slots is how many this node has for the model.
func (r *run) slots(ctx context.Context, model string) (n int, err error) {
	var own status.Node
	if err := r.get(ctx, "", "/v1/status", &own); err != nil {
		return 0, err
	}
	for _, m := range own.Models {
		if m.Name == model {
			for _, b := range m.Backends {
				n += len(b.Slots)
			}
		}
	}
	return n, nil
}

// letGoWithin is what a node is given to notice that a client left and its engine has let go: the promise is 1 s, and a
// loaded machine is slower.
const letGoWithin = 10 * time.Second

// cancel leaves a request in the middle of its answer and wants its slot back.
func (r *run) cancel(ctx context.Context, m Model) (Outcome, string) {
	asking, leave := context.WithTimeout(ctx, askWithin)
	defer leave()
	body := message(m.Name, "Count from one to a thousand, in words.")
	body["max_tokens"], body["stream"] = 4096, true
	begun := time.Now()
	resp, err := r.open(asking, http.MethodPost, r.pinned(completions), body)
	if err != nil {
		return Fail, err.Error()
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Fail, fmt.Sprintf("it was answered with status %d", resp.StatusCode)
	}
	id := resp.Header.Get("X-Viiwork-Request-Id")
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		return Fail, fmt.Sprintf("the answer ended with its first line %q: %v", line, late(err, begun))
	}
	begun = time.Now()
	leave()
	resp.Body.Close()
	within, done := context.WithTimeout(ctx, letGoWithin)
	defer done()
	for {
		var row status.Request
		err := r.get(within, "", "/api/requests/"+id, &row)
		if err == nil && row.State == "done" {
			if row.Status == http.StatusOK {
				return Skip, "the model had said all before it could be left"
			}
			return Pass, fmt.Sprintf("the engine let go %.1f s after the client left", time.Since(begun).Seconds())
		}
		if !pause(within, 50*time.Millisecond) {
			return Fail, fmt.Sprintf("%s after the client left its request still runs", letGoWithin)
		}
	}
}
