package kvshare

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/mesh"
	"viiwork/appliance/route"
	"viiwork/engine"
)

const (
	// idleFor is how long a slot must have been unused to be saved without need.
	idleFor  = 2 * time.Second
	idleLook = 500 * time.Millisecond
	// tidyEvery is how often it is looked for what the store and the engines have given up.
	tidyEvery = 5 * time.Second
	// leastTokens is the shortest conversation that is ever saved: less is computed in no time.
	leastTokens = 256
	// saveWithin bounds how long a turn waits for another conversation's slot to be saved.
	saveWithin = 30 * time.Second
	// maxJobs is how many saved states may wait for the store, each a file in a slot's folder.
	maxJobs = 2
)

// pays tells whether it is worth the standstill of an engine to save a conversation now. What an earlier replica has of it is
// not lost without: it pays for what has come since, unless members are to have it fresh.
func (s *Share) pays(b *bench, c *conv) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	tokens := c.stay.Tokens
	if tokens < leastTokens {
		return false
	}
	stake := tokens
	if s.cfg.Mode != Replicate {
		before := conv{stay: s.kept[c.name]}
		stake -= before.common(places(c.stay.Chain))
	}
	f := s.figuresOf(b.model)
	return route.SavePays(stake, b.prefill, f.saveSeconds(tokens), b.decoding())
}

// decoding is how many streams a save would stop now. It wants the lock held.
func (b *bench) decoding() int {
	n := 0
	for _, c := range b.convs {
		if c.running {
			n++
		}
	}
	return max(n, b.running-1)
}

// saving is a state on its way from a slot's folder into the store.
type saving struct {
	s       *Share
	path    string
	name    store.Name
	key     replica.Key
	stay    mesh.Resident
	backend string
	done    chan struct{}
}

// save makes the engine write a slot down, and leaves it to Run to put that into the store. It wants the gate held. Whatever comes
// of it, it is not tried again before the conversation has gone on. ctx is not that of a request: the engine does what it was
// asked for whether or not somebody waits.
func (s *Share) save(ctx context.Context, b *bench, c *conv, slot int) *saving {
	key, ok := s.key(b.model, b.id)
	ok = ok && !s.off(b.model, key.Build)
	s.mu.Lock()
	c.saved = true
	if !ok {
		s.mu.Unlock()
		return nil
	}
	job := &saving{s: s, name: c.name, key: key, stay: c.stay, backend: b.id, done: make(chan struct{})}
	s.pending[job] = struct{}{} // from now on others wait for it
	s.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	began := time.Now()
	path, f, err := s.cfg.Engine.SaveSlot(bounded, b.id, slot)
	if errors.Is(err, engine.ErrNoSlotFiles) {
		job.end()
		s.savesNone(b.model, key)
		return nil
	}
	if err != nil {
		job.end()
		s.log.Warn("a conversation's cache could not be saved; should it move, it is computed anew", "backend", b.id, "tokens", job.stay.Tokens, "error", err)
		return nil
	}
	job.path = path
	s.saved(b.model, f, time.Since(began))
	s.tell(job.name, job.stay) // before it is stored: who comes for it waits
	// One after the other: a state must not be put in place of a later one of its conversation.
	select {
	case s.jobs <- job:
		return job
	case <-s.ended:
	case <-bounded.Done():
		s.log.Warn("a saved cache is not kept: those before it are not stored yet", "backend", b.id, "tokens", job.stay.Tokens)
	}
	s.untell(job.name)
	job.end()
	return nil
}

// settle waits until what was saved of the conversation with that link is in the store.
func (s *Share) settle(ctx context.Context, l mesh.Link) {
	for {
		var done chan struct{}
		s.mu.Lock()
		for job := range s.pending {
			if slices.Contains(job.stay.Chain, l) {
				done = job.done
			}
		}
		s.mu.Unlock()
		if done == nil {
			return
		}
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// store cuts the file and keeps what is new of it.
func (j *saving) store(ctx context.Context) {
	defer j.end()
	m, err := j.read(ctx)
	if err != nil {
		j.s.untell(j.name)
		if ctx.Err() == nil {
			j.s.log.Warn("a saved cache is not kept", "backend", j.backend, "error", err)
		}
		return
	}
	if m.Tokens > 0 {
		j.stay.Tokens = m.Tokens
	}
	j.s.keep(j.name, j.key, m, j.stay)
}

// end takes it off the list of those that are waited for, and the file away.
func (j *saving) end() {
	if j.path != "" {
		_ = os.Remove(j.path) // what is left is cleared with the folder
	}
	j.s.mu.Lock()
	delete(j.s.pending, j)
	j.s.mu.Unlock()
	close(j.done)
}

// tell says to this node and the members that the store has a conversation, or soon will.
func (s *Share) tell(name store.Name, stay mesh.Resident) {
	stay.Backend, stay.Replica = "", string(name)
	s.cfg.Known.Store(stay)
	s.news()
}

// untell takes back what was said too early: there is the state before, or none.
func (s *Share) untell(name store.Name) {
	s.mu.Lock()
	stay, ok := s.kept[name]
	s.mu.Unlock()
	if ok {
		s.tell(name, stay)
		return
	}
	s.cfg.Known.Unstore(string(name))
	s.news()
}

var errOther = errors.New("the slot held another conversation")

func (j *saving) read(ctx context.Context) (replica.Manifest, error) {
	f, err := os.Open(j.path)
	if err != nil {
		return replica.Manifest{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return replica.Manifest{}, err
	}
	state, err := replica.Read(f, info.Size())
	if err != nil {
		return replica.Manifest{}, err
	}
	if n := len(state.Tokens); n > 0 && n != j.stay.Tokens && n != j.stay.Tokens-1 {
		return replica.Manifest{}, errOther
	}
	m, _, err := j.s.store.Save(ctx, j.name, j.key, state)
	return m, err
}

// keep notes that the store has a conversation now, and tells the members.
func (s *Share) keep(name store.Name, key replica.Key, m replica.Manifest, stay mesh.Resident) {
	stay.Backend, stay.Replica = "", string(name)
	s.mu.Lock()
	s.kept[name] = stay
	s.figuresOf(stay.Model).sized(m)
	s.mu.Unlock()
	s.note(name, key, stay)
	s.tell(name, stay)
}

// saveIdle saves what lies in slots that nobody has used for a while, in engines with nothing to do.
func (s *Share) saveIdle(ctx context.Context) {
	s.mu.Lock()
	var idle []*bench
	for _, b := range s.benches {
		if b.running == 0 && b.due(s.now()) != nil {
			idle = append(idle, b)
		}
	}
	s.mu.Unlock()
	for _, b := range idle {
		if b.tryLock() {
			s.saveOne(ctx, b)
			b.unlock()
		}
	}
}

// due is the conversation used last that is not saved and has been idle for long enough. It wants the lock held.
func (b *bench) due(now time.Time) *conv {
	for i := len(b.convs) - 1; i >= 0; i-- {
		if c := b.convs[i]; !c.saved && !c.running && now.Sub(c.ended) >= idleFor {
			return c
		}
	}
	return nil
}

// saveOne wants the gate held.
func (s *Share) saveOne(ctx context.Context, b *bench) {
	s.mu.Lock()
	c := b.due(s.now())
	if b.running > 0 {
		c = nil
	}
	s.mu.Unlock()
	if c == nil {
		return
	}
	if !s.pays(b, c) {
		s.mu.Lock()
		c.saved = true
		s.mu.Unlock()
		return
	}
	s.saveNow(ctx, b, c)
}

// saveNow finds the conversation's slot and saves it. It wants the gate held.
func (s *Share) saveNow(ctx context.Context, b *bench, c *conv) *saving {
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	slots, err := s.cfg.Engine.AskSlots(asking, b.id)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	slot, ok := b.slotOf(c, slots)
	if !ok {
		c.saved = true // it will not be told apart later either
	}
	s.mu.Unlock()
	if !ok {
		return nil
	}
	return s.save(ctx, b, c, slot)
}

// forgetGone drops what is known of engines that are not there any more, and of replicas that the store has given up.
func (s *Share) forgetGone() {
	there := map[string]bool{}
	models := s.cfg.Engine.Snapshot()
	s.tryAgain(models)
	for _, m := range models {
		for _, b := range m.Backends {
			there[b.ID] = b.State == engine.StateReady || b.State == engine.StateBusy || b.State == engine.StateDraining
		}
	}
	s.mu.Lock()
	have := map[store.Name]bool{}
	for _, r := range s.store.List() { // with the lock, or what is kept meanwhile is forgotten: the store has it before it is noted here
		have[r.Name] = true
	}
	for id, b := range s.benches {
		if !there[id] && b.running == 0 {
			delete(s.benches, id)
		}
	}
	var gone []store.Name
	for name := range s.kept {
		if !have[name] {
			delete(s.kept, name)
			gone = append(gone, name)
		}
	}
	s.mu.Unlock()
	for _, name := range gone {
		s.cfg.Known.Unstore(string(name))
		s.unnote(name)
	}
}
