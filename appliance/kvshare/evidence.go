package kvshare

import (
	"context"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/engine"
)

const (
	// proof is the share of what a restored state and a prompt have in common that an engine must find cached.
	proof = 0.9
	// disproofs is how many imports in a row may be of no use before a model's are given up.
	disproofs = 3
	// tokensTime is how long an engine may take to tell the tokens of a prompt.
	tokensTime = 10 * time.Second
)

type trialKey struct{ model, build string }

// trial is what imports into one build of an engine have come to.
type trial struct {
	wrong int    // in a row
	off   string // why no more are made; "" = they are
}

// off tells whether caches of a model are not moved into this build of an engine. Another build begins anew.
func (s *Share) off(model, build string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trials[trialKey{model, build}]
	return t != nil && t.off != ""
}

// givenUp tells whether a model's caches are not moved into any engine it has now.
func (s *Share) givenUp(model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, t := range s.trials {
		if k.model == model && t.off != "" {
			return true
		}
	}
	return false
}

// tryAgain forgets what came of builds that a model's engines are not of any more. While none of them is ready, it is not known
// what they will be.
func (s *Share) tryAgain(models []engine.ModelState) {
	builds := map[trialKey]bool{}
	ready := map[string]bool{}
	for _, m := range models {
		for _, b := range m.Backends {
			if t, ok := s.cfg.Engine.KVTraits(b.ID); ok {
				builds[trialKey{m.Model.Name, t.Build + t.Alters}] = true
				ready[m.Model.Name] = true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.trials {
		if ready[k.model] && !builds[k] {
			delete(s.trials, k)
		}
	}
}

// trial wants the lock held.
func (s *Share) trial(model string, key replica.Key) *trial {
	k := trialKey{model, key.Build}
	t := s.trials[k]
	if t == nil {
		t = &trial{}
		s.trials[k] = t
	}
	return t
}

// judge holds what an engine found cached against what was restored for the turn.
func (s *Share) judge(ctx context.Context, st *Start, o Outcome) {
	r := st.restored
	if o.Cached < 0 || o.Prompt < 0 || o.Stay == nil {
		return // it did not come so far
	}
	if float64(o.Cached) >= proof*float64(min(r.count, o.Prompt-1)) {
		s.proved(st.turn.Model, r)
		return
	}
	common := st.turn.Fetch.Tokens // by the links, whose tokens are estimated
	if r.tokens != nil && o.Tokens != nil {
		asking, cancel := context.WithTimeout(ctx, tokensTime)
		prompt, err := o.Tokens(asking)
		cancel()
		if err == nil {
			common = replica.CommonPrefix(r.tokens, prompt)
		}
	}
	if float64(o.Cached) >= proof*float64(min(common, o.Prompt-1)) {
		s.proved(st.turn.Model, r)
		return
	}
	s.log.Warn("a restored cache was of no use", "model", st.turn.Model, "backend", st.turn.Backend, "restored", r.count, "in_common", common, "cached", o.Cached)
	s.disproved(st.turn.Model, r)
}

func (s *Share) proved(model string, r *restored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial(model, r.key).wrong = 0
	s.pair(r).proved++
}

func (s *Share) disproved(model string, r *restored) {
	s.mu.Lock()
	t := s.trial(model, r.key)
	t.wrong++
	given := t.wrong >= disproofs && t.off == ""
	if given {
		t.off = "restored caches were of no use to its engine, build " + r.key.Build
	}
	s.pair(r).failed++
	s.mu.Unlock()
	if given {
		s.log.Warn("caches of this model are moved no more: its engine does not use them; another build of the engine is tried again",
			"model", model, "build", r.key.Build, "times", disproofs)
		s.news()
	}
}

// savesNone gives up a model of which this build of the engine cannot save slots at all, as of one that looks at images.
func (s *Share) savesNone(model string, key replica.Key) {
	s.mu.Lock()
	t := s.trial(model, key)
	first := t.off == ""
	if first {
		t.off = "its engine saves no slots of it, build " + key.Build
	}
	s.mu.Unlock()
	if first {
		s.log.Warn("caches of this model are not moved: its engine saves no slots of it; another build of the engine is tried again", "model", model, "build", key.Build)
		s.news()
	}
}
