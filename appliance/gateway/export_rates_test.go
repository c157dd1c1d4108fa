package gateway

import (
	"context"
	"log/slog"
	"time"

	"viiwork/appliance/mesh"
)

// Measuring is the rates of a node.
type Measuring struct {
	*rates
	cards string
}

func NewMeasuring(digest func(string) string, cards string) Measuring {
	return Measuring{&rates{digest: digest, models: map[string]*modelRates{}}, cards}
}

// Work is one answer in figures.
type Work struct {
	Prompt, Cached, Output   int
	Prefill, Decode, Streams float64
	First                    time.Duration
}

func (m Measuring) Answered(model, backend string, w Work) {
	m.answered(model, backend, work{w.Prompt, w.Cached, w.Output, w.Prefill, w.Decode, w.Streams, w.First})
}
func (m Measuring) Thought(model string, pause time.Duration) { m.thought(model, pause) }
func (m Measuring) Load(path string) error                    { return m.load(path) }
func (m Measuring) Save(path string) error                    { return m.save(path) }

// Keep is what a gateway does with them as long as it runs.
func (m Measuring) Keep(ctx context.Context, path string, log *slog.Logger) { m.keep(ctx, path, log) }

// Tell is the model's report with one backend "m#0".
func (m Measuring) Tell(model string) mesh.Model {
	told := mesh.Model{Name: model, Backends: []mesh.Backend{{ID: "m#0"}}}
	m.tell(&told, []string{m.cards})
	return told
}

// ReadRates reads a file of rates.
func ReadRates(data []byte) error {
	_, err := readRates(data)
	return err
}

// SaveEvery is how often rates are stored at most.
const SaveEvery = saveEvery

// Flights is what engines are at work on.
type Flights struct{ *flights }

func NewFlights(tell func()) Flights { return Flights{newFlights(tell)} }

func (f Flights) Begin(backend string) Flight { return Flight{f.begin(backend)} }

// Load tells the prompt tokens still to compute and the streams.
func (f Flights) Load(backend string) (outstanding, decoding int) {
	l := f.load(backend)
	return l.outstanding, l.decoding
}

// Empty tells whether nothing is kept of requests that have ended.
func (f Flights) Empty() bool { return len(f.backends) == 0 }

type Flight struct{ *flight }

func (f Flight) Computes(left int) { f.computes(left) }
func (f Flight) Token()            { f.token() }
func (f Flight) End() float64      { return f.end() }
