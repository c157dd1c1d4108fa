package gateway

import (
	"sync"
	"time"

	"viiwork/appliance/route"
)

// newsGap is the least time between two words about what runs: its figures change with each token.
const newsGap = 200 * time.Millisecond

// flights is what the engines of this node are at work on.
type flights struct {
	tell func() // that the figures have changed; nil = nobody asks

	mu       sync.Mutex
	produced int64 // tokens of all answers, from the start
	backends map[string]map[*flight]struct{}
	told     time.Time
}

// flight is one request at an engine.
type flight struct {
	all      *flights
	backend  string
	prompt   int // tokens still to compute; 0 = none, or not known yet
	produced int // tokens of the answer so far
	decoding bool
	beside   int // streams when it began to generate, itself included
}

func newFlights(tell func()) *flights {
	return &flights{tell: tell, backends: map[string]map[*flight]struct{}{}}
}

// begin adds a request at a backend; end must follow.
func (f *flights) begin(backend string) *flight {
	fl := &flight{all: f, backend: backend}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.backends[backend] == nil {
		f.backends[backend] = map[*flight]struct{}{}
	}
	f.backends[backend][fl] = struct{}{}
	return fl
}

// end takes it out. streams is how many the backend generated while this one was generated, in the mean; 0 if it was not.
func (fl *flight) end() (streams float64) {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	if fl.decoding {
		streams = float64(fl.beside+fl.all.decoding(fl.backend)) / 2
	}
	delete(fl.all.backends[fl.backend], fl)
	if len(fl.all.backends[fl.backend]) == 0 {
		delete(fl.all.backends, fl.backend)
	}
	return streams
}

// computes says how many tokens of its prompt are still to compute.
func (fl *flight) computes(left int) {
	fl.all.mu.Lock()
	fl.prompt = max(0, left)
	fl.all.mu.Unlock()
	fl.all.news()
}

// token counts one of the answer.
func (fl *flight) token() {
	fl.all.mu.Lock()
	fl.produced++
	fl.all.produced++
	first := !fl.decoding
	if first {
		fl.decoding, fl.prompt = true, 0
		fl.beside = fl.all.decoding(fl.backend)
	}
	fl.all.mu.Unlock()
	if first {
		fl.all.news()
	}
}

// all is how many tokens were generated.
func (f *flights) all() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.produced
}

// decoding wants the lock held.
func (f *flights) decoding(backend string) int {
	n := 0
	for fl := range f.backends[backend] {
		if fl.decoding {
			n++
		}
	}
	return n
}

// news tells of a change if the last word is old enough. Nothing is lost by silence: who publishes looks once a second
// anyway.
func (f *flights) news() {
	if f.tell == nil {
		return
	}
	f.mu.Lock()
	now := time.Now()
	due := now.Sub(f.told) >= newsGap
	if due {
		f.told = now
	}
	f.mu.Unlock()
	if due {
		f.tell()
	}
}

// load is how busy one backend is.
type load struct {
	outstanding int // prompt tokens still to compute
	decoding    int // streams
	running     []route.Running
}

func (f *flights) load(backend string) load {
	f.mu.Lock()
	defer f.mu.Unlock()
	var l load
	for fl := range f.backends[backend] {
		l.outstanding += fl.prompt
		if fl.decoding {
			l.decoding++
		}
		l.running = append(l.running, route.Running{Produced: fl.produced, Prompt: fl.prompt})
	}
	return l
}
