package kvshare

import (
	"cmp"
	"slices"
	"time"

	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/status"
)

type pairKey struct{ from, via string }

// pair is what came from one node by one path. "" is this node's own store.
type pair struct {
	transfers               int
	bytes                   int64
	took                    time.Duration
	imports, proved, failed int
	importing               phases
}

// moves is how turns fared that ran elsewhere than their conversation had before.
type moves struct{ warm, partly, cold int }

// The share of its prompt that a turn must find cached to count as warm, and as partly so.
const (
	warmShare   = 0.9
	partlyShare = 0.3
)

// maxPairs bounds the pairs that are told apart: members may change their names. All further ones are one, of "others".
const maxPairs = 256

// pair wants the lock held.
func (s *Share) pair(r *restored) *pair {
	k := pairKey{r.from, r.via}
	p := s.pairs[k]
	if p == nil && len(s.pairs) >= maxPairs {
		k = pairKey{"others", "none"}
		p = s.pairs[k]
	}
	if p == nil {
		p = &pair{}
		s.pairs[k] = p
	}
	return p
}

// carried counts what a transfer brought, whole or not.
func (s *Share) carried(r *restored, got transfer.Moved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pair(r)
	p.transfers++
	p.bytes += got.Bytes
	p.took += got.Took
}

// failed notes that a turn has to do without the cache it was to have.
func (s *Share) failed(t *Turn, r *restored, err error) {
	s.log.Info("a conversation's cache did not come; its prompt is computed instead", "model", t.Model, "backend", t.Backend, "from", r.from, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pair(r).failed++
}

// imported counts a state that an engine has taken.
func (s *Share) imported(model string, r *restored) {
	if f := s.cfg.Imported; f != nil {
		f("fetch", r.took.fetch)
		f("assemble", r.took.assemble)
		f("restore", r.took.restore)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pair(r)
	p.imports++
	p.importing.fetch += r.took.fetch
	p.importing.assemble += r.took.assemble
	p.importing.restore += r.took.restore
	s.figuresOf(model).imported(r.size, r.took.assemble+r.took.restore)
}

// moved classes a turn that ran on another node than the one before it.
func (s *Share) moved(t *Turn, o Outcome) {
	if t.From == "" || o.Prompt <= 0 || o.Cached < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moves[t.Model]
	if m == nil {
		m = &moves{}
		s.moves[t.Model] = m
	}
	switch share := float64(o.Cached) / float64(o.Prompt); {
	case share >= warmShare:
		m.warm++
	case share >= partlyShare:
		m.partly++
	default:
		m.cold++
	}
}

// Report tells what moving caches has come to, for people and programs. node is the name of this one.
func (s *Share) Report(node string) status.KV {
	doc := status.KV{Mode: string(Off), Pairs: []status.KVPair{}, Models: []status.KVModel{}}
	if s == nil {
		return doc
	}
	doc.Mode = string(s.cfg.Mode)
	if s.store != nil {
		u := s.store.Usage()
		doc.Store = status.KVStore{Bytes: u.Bytes, Budget: u.Budget, Replicas: u.Replicas}
	}
	models := s.cfg.Engine.Snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, p := range s.pairs {
		doc.Pairs = append(doc.Pairs, status.KVPair{
			From: cmp.Or(k.from, node), To: node, Path: k.via, Transfers: p.transfers, Bytes: p.bytes, Seconds: p.took.Seconds(),
			Imports: p.imports, Proved: p.proved, Failed: p.failed,
			FetchSeconds: p.importing.fetch.Seconds(), AssembleSeconds: p.importing.assemble.Seconds(), RestoreSeconds: p.importing.restore.Seconds(),
		})
	}
	slices.SortFunc(doc.Pairs, func(a, b status.KVPair) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Path, b.Path)) })
	for _, m := range models {
		doc.Models = append(doc.Models, s.reportModel(m.Model.Name))
	}
	return doc
}

// reportModel wants the lock held.
func (s *Share) reportModel(name string) status.KVModel {
	out := status.KVModel{Name: name, Enabled: true}
	if f := s.figures[name]; f != nil {
		out.Saves, out.SavedBytes, out.StallSeconds = f.saves, f.savedBytes, f.stalled.Seconds()
	}
	if m := s.moves[name]; m != nil {
		out.Warm, out.Partly, out.Cold = m.warm, m.partly, m.cold
	}
	for k, t := range s.trials {
		if k.model == name && t.off != "" {
			out.Enabled, out.Why = false, t.off
		}
	}
	return out
}
