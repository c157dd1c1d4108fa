package accept

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"viiwork/appliance/status"
)

const (
	above     = 4  // requests more than there are slots
	crowdMost = 64 // of a machine with hundreds of slots, that many at the most
)

// saturate sends more requests at once than this node has slots. None may be refused while a slot is free somewhere.
func (r *run) saturate(ctx context.Context, m Model) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	slots, err := r.slots(ctx, m.Name)
	if err != nil {
		return Fail, err.Error()
	}
	crowd := min(slots+above, crowdMost)
	answers, faults := make([]answer, crowd), make([]error, crowd)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			answers[i], faults[i] = r.send(ctx, http.MethodPost, completions, message(m.Name, fmt.Sprintf("Say the number %d.", i)))
		})
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
	detail := fmt.Sprintf("%d at once on %s: %s", crowd, counted(slots, "slot"), strings.Join(parts, ", "))
	if refused > 0 {
		return Fail, fmt.Sprintf("%s; %d were refused: is routing.queue_timeout too short for this machine?", detail, refused)
	}
	return Pass, detail
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
