package route

import (
	"math"
	"time"
)

// Weights is how much each part of a cost counts, and when a conversation leaves its home.
type Weights struct {
	Decode, Stall, Shadow, Load, Reserve float64
	Remote                               float64 // seconds for another node, beside the round trip
	Leave                                float64 // seconds that must be saved to leave the home
	LeaveShare                           float64 // and which share of the home's cost
}

// UsualWeights are those that Pick uses.
func UsualWeights() Weights {
	return Weights{Decode: 0.5, Stall: 0.5, Shadow: 0.5, Load: 6, Reserve: 0.25, Remote: 0.3, Leave: 3, LeaveShare: 0.25}
}

func (s *Snapshot) weights() Weights {
	if s.Weights != nil {
		return *s.Weights
	}
	return UsualWeights()
}

// held back is the share of its speed that a stream loses while the backend computes a prompt.
const heldBack = 0.85

// pricing is what the costs of all candidates have in common.
type pricing struct {
	s *Snapshot
	r *Request
	w Weights

	prefill, decode float64 // of a backend that has told none
	hold            float64 // s, of a node that has told none
	output, think   float64
	busy            float64 // share of all slots
	lived           bool    // some backend has told of residents
	prompt          float64
	moving          moving
}

func newPricing(s *Snapshot, r *Request) pricing {
	p := pricing{s: s, r: r, w: s.weights(), output: orElse(s.Output, 1, maxTokens, usualOutput), think: orElse(s.Think.Seconds(), 0.1, 1e5, usualThink)}
	p.prefill, p.decode = s.rates()
	p.hold = usualHold(s)
	p.busy = min(s.busy(), 0.95)
	p.lived = s.lived()
	p.prompt = float64(count(r.Prompt))
	p.moving = newMoving(s, r)
	return p
}

// busy is the share of all slots that is taken.
func (s *Snapshot) busy() float64 {
	slots, free := 0, 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Serves() {
			slots += n.slots()
			free += n.Free()
		}
	}
	return float64(slots-free) / float64(max(1, slots))
}

// lived tells whether anybody has told of residents.
func (s *Snapshot) lived() bool {
	for i := range s.Nodes {
		for j := range s.Nodes[i].Backends {
			if s.Nodes[i].Backends[j].Residents > 0 {
				return true
			}
		}
	}
	return false
}

func (p *pricing) price(all []Candidate) {
	for i := range all {
		c := &all[i]
		n := &p.s.Nodes[c.node]
		p.one(c, n, &n.Backends[c.at])
		c.Total = c.sum()
	}
}

// one prices a backend. T is what it would have to compute, c its slots, k the streams it generates already.
func (p *pricing) one(c *Candidate, n *Node, b *Backend) {
	c.Measured = orElse(b.Prefill, minRate, maxRate, 0) > 0
	P := orElse(b.Prefill, minRate, maxRate, p.prefill)
	D := orElse(b.Decode, minRate, maxRate, p.decode)
	slow := orElse(b.Slowdown, 0, 4, usualSlowdown)
	slots := float64(max(1, b.slots()))
	k := min(float64(count(b.Decoding)), slots-1)
	d := p.output * (1 + slow*k) / D
	S := d + 2
	turn := S + 700/P
	if hold := orElse(n.Hold.Seconds(), 0.01, 1e5, 0); hold > 0 { // requests may be shorter than an agent's usually are
		S, turn = min(S, hold), min(turn, hold)
	}

	held, moved := p.fetch(c, n, p.held(b), P)
	T := p.prompt - held
	c.Held = int(held)
	outstanding := float64(count(b.Outstanding))

	c.Prefill = moved + (T+min(outstanding, T))/P
	c.Decode = p.w.Decode * d
	c.Stall = p.w.Stall * heldBack * (k*T + max(0, outstanding-T)) / P
	if c.Fetch == Pull {
		c.Stall += p.w.Stall * p.moving.stops
	}
	c.Shadow = p.w.Shadow * p.busy / (1 - p.busy) * T / P
	c.Queue = p.queue(c, n, b, S)
	c.Load = p.load(c, b, turn)
	c.Reserve = p.reserve(c, b, S, slots)
	if !n.Local {
		c.RTT = p.w.Remote + min(max(0, n.RTT.Seconds()), 60)
	}
}

// held is how many tokens of the prompt b has.
func (p *pricing) held(b *Backend) float64 {
	if p.r.Forget {
		return 0
	}
	return min(float64(count(b.Held)), p.prompt)
}

// queue is the time until a slot frees, and for all who are before. Nobody is before a free slot: who stands in the
// line of its node does not accept it.
func (p *pricing) queue(c *Candidate, n *Node, b *Backend, S float64) float64 {
	if c.Free > 0 {
		return 0
	}
	slots := float64(max(1, b.slots()))
	turn := S // how long a slot is taken
	if b.Decode <= 0 {
		turn = orElse(n.Hold.Seconds(), 0.001, 1e5, p.hold)
	}
	wait := orElse(b.FreeIn.Seconds(), 0.001, 1e5, turn/slots)
	if p.r.Stands == n.ID && n.ID != "" {
		return wait + float64(count(p.r.Place))*turn/slots
	}
	named := 0
	for i := range n.Backends {
		named += count(n.Backends[i].Waiting)
	}
	anywhere := float64(max(0, count(n.Waiting)-named)) // stand for any backend: each takes its share of them
	return wait + float64(count(b.Waiting))*turn/slots + anywhere*turn/float64(max(1, n.slots()))
}

// load is what one more session at a backend costs all who live there, in time waited per turn of each: they come back
// with their next request, and there are only so many of them, so that the wait is that of a closed queue.
func (p *pricing) load(c *Candidate, b *Backend, S float64) float64 {
	if !p.lived {
		return 0
	}
	others := count(b.Residents)
	if c.home {
		others = max(0, others-1)
	}
	n := others + 1
	with, without := closedWaits(n, b.slots(), S, p.think)
	return max(0, p.w.Load*(float64(n)*with-float64(others)*without))
}

// closedWaits are the mean waits for one of c servers of n customers who come back after a time of thought (the machine
// repair model, M/M/c//n), and of one customer less. A mesh full of sessions asks for them at every backend: the two are
// summed up side by side, and nothing is divided where all servers are busy.
func closedWaits(n, c int, service, think float64) (all, less float64) {
	c = max(1, c)
	switch {
	case n <= c:
		return 0, 0
	case n == mostCustomers+1:
		less, _ = closedWaits(n-1, c, service, think)
		return crowdedWait(n, c, service, think), less
	case n > mostCustomers:
		return crowdedWait(n, c, service, think), crowdedWait(n-1, c, service, think)
	}
	r := min(service/think, 1e3)
	away := float64(c) / r // customers in thought while all servers are busy: a Poisson number of this mean
	if float64(n-1-c) > away+6*(1+math.Sqrt(away)) {
		return crowdedWait(n, c, service, think), crowdedWait(n-1, c, service, think)
	}
	a, b, left := 1.0, 1.0, float64(n) // a and b: how likely so many of n, and of n-1, are here, but for a factor
	var served, servedLess float64     // sums of how many are served, by how likely that is
	for i := 1; i <= c; i++ {
		step := r / float64(i)
		a *= left * step
		left--
		b *= left * step
		served += float64(i) * a
		servedLess += float64(i) * b
	}
	step, behind := r/float64(c), 0.0
	var busy, busyLess, line, lineLess float64 // the same where all servers are busy, and of how many wait
	for range n - c {
		a *= left * step
		left--
		b *= left * step
		behind++
		busy += a
		busyLess += b
		line += behind * a
		lineLess += behind * b
	}
	served += float64(c) * busy
	servedLess += float64(c) * busyLess
	return line / served * service, lineLess / servedLess * service
}

// crowdedWait is the mean wait of so many customers that all servers are busy all the time.
func crowdedWait(n, c int, service, think float64) float64 {
	return max(0, float64(n)*service/float64(c)-service-think)
}

// mostCustomers keeps the likelihoods within what a float64 holds.
const mostCustomers = 48

// reserve keeps the last slots for the sessions that live there and will be back.
func (p *pricing) reserve(c *Candidate, b *Backend, S, slots float64) float64 {
	if c.Free == 0 || c.home {
		return 0
	}
	return max(0, p.w.Reserve*S*min(1, float64(count(b.Idle)-(c.Free-1))/slots))
}

// FreeIn is an owner's guess when the first of its busy slots frees: output and the rest as in [Snapshot] and [Backend].
func FreeIn(b Backend, running []Running, output float64) time.Duration {
	if len(running) == 0 {
		return 0
	}
	output = orElse(output, 1, maxTokens, usualOutput)
	slow := orElse(b.Slowdown, 0, 4, usualSlowdown)
	rate := orElse(b.Decode, minRate, maxRate, usualDecode) / (1 + slow*float64(max(0, b.slots()-1)))
	left, prompts := math.Inf(1), 0.0
	for _, r := range running {
		left = min(left, max(60, output-float64(count(r.Produced))))
		prompts += float64(count(r.Prompt))
	}
	seconds := left/rate + heldBack*prompts/orElse(b.Prefill, minRate, maxRate, usualPrefill)
	return time.Duration(min(seconds, 1e5) * float64(time.Second))
}

// Running is a request in a slot.
type Running struct {
	Produced int // tokens of the answer so far
	Prompt   int // tokens of the prompt still to compute
}
