package kvshare

import (
	"math"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// What is taken for true until it was measured: 64 KiB a token, 1 GB/s out of an engine and into one, and what a small model
// takes for the rest.
const (
	guessTokenBytes = 64 << 10
	guessRate       = 1e9 // bytes a second
	guessStart      = 20 * time.Millisecond
	guessLink       = 100e6 // bytes a second

	share = 0.3 // what a new value counts for
	// from so many bytes on a time says how fast an engine is, below that how long it takes to begin.
	telling = 8 << 20
)

// figures is what moving a model's caches takes on this node.
type figures struct {
	byFile      float64 // bytes a token, 0 = unknown
	tokenBytes  float64 // as measured
	saveRate    float64 // bytes a second
	importRate  float64
	importStart float64 // seconds
	saves       int
	savedBytes  int64
	stalled     time.Duration // of engines, over saves
}

// figuresOf wants the lock held.
func (s *Share) figuresOf(model string) *figures {
	f := s.figures[model]
	if f == nil {
		f = &figures{}
		s.figures[model] = f
	}
	if s.cfg.TokenBytes != nil {
		f.byFile = float64(s.cfg.TokenBytes(model))
	}
	return f
}

// perToken is how many bytes of a state a token takes.
func (f *figures) perToken() float64 { return orElse(f.tokenBytes, orElse(f.byFile, guessTokenBytes)) }

func mean(old, v float64) float64 {
	if old == 0 {
		return v
	}
	return old + share*(v-old)
}

func orElse(v, guess float64) float64 {
	if v > 0 {
		return v
	}
	return guess
}

// saveSeconds is how long an engine stands still to save so many tokens.
func (f *figures) saveSeconds(tokens int) float64 {
	return float64(tokens) * f.perToken() / orElse(f.saveRate, guessRate)
}

// saved learns from one save.
func (s *Share) saved(model string, file engine.SlotFile, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.figuresOf(model)
	f.saves++
	f.savedBytes += file.Bytes
	f.stalled += took
	if seconds := took.Seconds(); seconds > 0 && file.Bytes > 0 {
		f.saveRate = mean(f.saveRate, min(float64(file.Bytes)/seconds, 1e12))
	}
	if file.Tokens > 0 {
		f.tokenBytes = mean(f.tokenBytes, min(float64(file.Bytes)/float64(file.Tokens), 1e9))
	}
}

// sized learns how large a state is.
func (f *figures) sized(m replica.Manifest) {
	if m.Tokens > 0 {
		f.tokenBytes = mean(f.tokenBytes, float64(m.Size)/float64(m.Tokens))
	}
}

// imported learns from one import: putting the file together, and the engine's reading it.
func (f *figures) imported(bytes int64, took time.Duration) {
	seconds := took.Seconds()
	if bytes < telling {
		f.importStart = mean(f.importStart, min(seconds, 60))
		return
	}
	if rest := seconds - f.importStart; rest > 0 {
		f.importRate = mean(f.importRate, min(float64(bytes)/rest, 1e12))
	}
}

// Figures tells members what moving a model's caches takes here, nil if they are not moved.
func (s *Share) Figures(model string) *mesh.KV {
	if s == nil || s.givenUp(model) {
		return nil
	}
	key, ok := s.keyOf(model)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.figuresOf(model)
	kv := &mesh.KV{
		Kind: kindOf(key), TokenBytes: round3(f.perToken()), SaveBPS: round3(orElse(f.saveRate, guessRate)),
		ImportBPS: round3(orElse(f.importRate, guessRate)), ImportStart: round3(orElse(f.importStart, guessStart.Seconds())),
		SendBPS: guessLink, Fresh: s.cfg.Mode == Replicate,
	}
	if net := s.net.Load(); net != nil {
		rate, sending := net.Client.Sends()
		kv.SendBPS, kv.SendingMS = round3(orElse(rate, guessLink)), sending.Milliseconds()
	}
	return kv
}

// round3 keeps figures still that change with every measurement by a little.
func round3(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}

func (s *Share) news() {
	if s.cfg.News != nil {
		s.cfg.News()
	}
}
