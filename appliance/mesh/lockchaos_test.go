package mesh_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestNoOrderOfEventsMakesTwoHolders: nodes want to lead over a network that delays, loses and parts, and any of them may die
// and come back. What a holder orders is done only while nobody else has become one, and no note that counted is lost.
func TestNoOrderOfEventsMakesTwoHolders(t *testing.T) {
	orders, holds := 0, 0
	for seed := range uint64(10) {
		t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRivals(t, seed)
				r.run()
				orders, holds = orders+r.obeyed, holds+r.holds
			})
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d holds, %d orders", holds, orders)
	if holds < 40 || orders < 40 {
		t.Error("these nodes prove nothing")
	}
}

// rivals are nodes that all want to lead.
type rivals struct {
	*hall
	t *testing.T

	mu     sync.Mutex
	dice   *rand.Rand
	holder string // token of the last hold
	wrote  int    // the highest note that was tried
	counts int    // the highest that counted
	obeyed int
	holds  int
}

func newRivals(t *testing.T, seed uint64) *rivals {
	r := &rivals{t: t, dice: rand.New(rand.NewPCG(seed, 3))}
	r.hall = buildHall(t, 3+int(seed%3))
	losses := r.upTo(4) * 4
	r.delay = func() time.Duration {
		if r.upTo(50) == 0 {
			return time.Duration(r.upTo(25)) * time.Second
		}
		return time.Duration(r.upTo(300)) * time.Millisecond
	}
	r.lost = func() bool { return r.upTo(100) < losses }
	r.begin()
	return r
}

func (r *rivals) upTo(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.IntN(n)
}

func (r *rivals) run() {
	ctx, cancel := context.WithTimeout(r.t.Context(), 40*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range r.nodes {
		all.Go(func() {
			for ctx.Err() == nil {
				r.lead(ctx, i)
				time.Sleep(time.Duration(r.upTo(60)) * time.Second)
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(20+r.upTo(120)) * time.Second)
		switch i := r.upTo(len(r.nodes)); r.upTo(4) {
		case 0:
			r.part(r.nodes[i])
		case 1:
			r.part(r.nodes[i], r.nodes[(i+1)%len(r.nodes)])
		case 2:
			r.nodes[i].kill([]string{"failed", "left"}[r.upTo(2)])
			time.Sleep(time.Duration(r.upTo(40)) * time.Second)
			r.nodes[i].again()
		default:
			r.part()
		}
	}
	all.Wait()
	r.end()
	time.Sleep(time.Minute) // what is still on its way comes to nobody
}

// lead is one hold of a node: it takes over what was left, notes the next and has a member do it.
func (r *rivals) lead(ctx context.Context, i int) {
	r.hall.mu.Lock()
	lock := r.nodes[i].lock // of this run
	r.hall.mu.Unlock()
	r.mu.Lock()
	counted := r.counts
	r.mu.Unlock()
	held, text, err := lock.Take(ctx)
	if err != nil {
		return
	}
	defer held.Free(ctx)
	found, _ := strconv.Atoi(string(text))
	r.mu.Lock()
	r.holder = held.Token()
	r.holds++
	if found < counted || found > r.wrote {
		r.t.Errorf("%s finds note %d; %d counted, %d were tried", r.nodes[i].Name, found, counted, r.wrote)
	}
	r.mu.Unlock()
	for range r.upTo(6) {
		r.mu.Lock()
		r.wrote++
		number := r.wrote
		r.mu.Unlock()
		if held.Note(ctx, fmt.Append(nil, number)) != nil {
			return
		}
		r.mu.Lock()
		r.counts = max(r.counts, number)
		r.mu.Unlock()
		time.Sleep(time.Duration(r.upTo(70)) * time.Second)
		if held.Fresh() {
			time.Sleep(r.delay()) // on its way
			r.order(held.Token(), r.nodes[i].ID, r.upTo(len(r.nodes)))
		}
	}
}

// order has a member do something.
func (r *rivals) order(token, from string, to int) {
	r.hall.mu.Lock()
	lock := r.nodes[to].lock
	r.hall.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !lock.Obeys(from, token) {
		return
	}
	r.obeyed++
	if r.holder != token {
		r.t.Errorf("%s obeys %s, and another one has become the holder", r.nodes[to].Name, from)
	}
}
