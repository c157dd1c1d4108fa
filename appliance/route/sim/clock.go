package sim

import "container/heap"

// clock runs what is to happen in its order; of one moment, in the order in which it was asked for.
type clock struct {
	now   float64 // s
	queue events
	last  uint64
}

type event struct {
	at float64
	nr uint64
	do func()
}

func (c *clock) at(t float64, do func()) {
	c.last++
	heap.Push(&c.queue, event{max(t, c.now), c.last, do})
}

func (c *clock) after(d float64, do func()) { c.at(c.now+d, do) }

func (c *clock) run(until float64) {
	for len(c.queue) > 0 && c.queue[0].at <= until {
		e := heap.Pop(&c.queue).(event)
		c.now = e.at
		e.do()
	}
}

type events []event

func (q events) Len() int      { return len(q) }
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].nr < q[j].nr
}
func (q *events) Push(x any) { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
