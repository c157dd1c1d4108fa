package kvshare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
	"viiwork/engine"
)

// Net is where the other nodes are.
type Net struct {
	ID     string // of this node
	Client *transfer.Client
	Member func(id string) (mesh.Member, bool)
	// Kin are the ids of the other nodes that have the model and whose caches of it are of that kind.
	Kin func(model, kind string) []string
	// Leaving tells of a node that goes in a moment: what it alone has is copied whatever the mode. nil = none does.
	Leaving func(id string) bool
	// Guard ends the wait for a member's first word once nothing at all comes from it, and is told of that word. nil = whoever
	// is asked is waited for.
	Guard func(ctx context.Context, id string) (guarded context.Context, heard func())
}

// ask gets a member's list of chunks. It may have to save the state first, but one that has died in silence will not.
func (n *Net) ask(ctx context.Context, m mesh.Member, link string) (transfer.State, error) {
	if n.Guard == nil {
		return n.Client.Manifest(ctx, m, link)
	}
	guarded, heard := n.Guard(ctx, m.ID)
	defer heard()
	state, err := n.Client.Manifest(guarded, m, link)
	if cause := context.Cause(guarded); err != nil && cause != nil {
		err = cause
	}
	return state, err
}

// Join makes the Share one of a mesh.
func (s *Share) Join(n Net) { s.net.Store(&n) }

// restored is a state on its way into a slot.
type restored struct {
	name   store.Name
	key    replica.Key
	moved  string      // "import" or "pull"
	from   string      // name of the node it came from, "" = this one
	via    string      // the path it came by
	prompt []mesh.Link // of whom it is for
	file   string      // the file in the slot's folder
	size   int64
	tokens []int32 // that it holds; nil = not known
	count  int
	goesOn bool // the turn goes on where the conversation in the state ends: it is its next one
	took   phases
}

// phases is where the time of an import went.
type phases struct{ fetch, assemble, restore time.Duration }

func (r *restored) discard() {
	if r != nil && r.file != "" {
		_ = os.Remove(r.file) // what is left is cleared with the folder
	}
}

var (
	errForeign = errors.New("the state is of another model, engine or cache type")
	errNobody  = errors.New("this node is in no mesh yet")
)

// fetch puts the state that a turn wants into the folder of its engine, nil if that fails or takes too long.
func (s *Share) fetch(ctx context.Context, t *Turn) *restored {
	within := t.Fetch.Within
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it took longer than the %s in which the prompt is computed", within.Round(time.Millisecond)))
	defer cancel()
	key, ok := s.key(t.Model, t.Backend)
	if !ok || s.off(t.Model, key.Build) {
		return nil
	}
	r := &restored{key: key, moved: "import", via: "store", from: t.Fetch.Member.Name, prompt: t.Prompt}
	var err error
	if r.from == "" {
		r.name, err = s.stored(ctx, t, r)
	} else {
		r.moved, r.via = "pull", "none"
		r.name, err = s.pull(ctx, t, r)
	}
	if err == nil {
		err = s.assemble(ctx, t.Backend, r)
	}
	if err != nil {
		if c := context.Cause(ctx); c != nil {
			err = c
		}
		r.discard()
		s.failed(t, r, err)
		return nil
	}
	return r
}

// stored is the replica of the turn's conversation in this node's own store.
func (s *Share) stored(ctx context.Context, t *Turn, r *restored) (store.Name, error) {
	s.settle(ctx, t.Prompt[t.Fetch.Link])
	name, ok := s.nameOf(t.Model, t.Prompt[:t.Fetch.Link+1])
	if !ok {
		return "", store.ErrNotFound
	}
	s.store.Touch(name, r.key)
	s.mu.Lock()
	r.goesOn = endsIn(s.kept[name].Chain, t.Prompt)
	s.mu.Unlock()
	return name, nil
}

// endsIn tells whether the last of a conversation's links is one of a prompt's.
func endsIn(chain, prompt []mesh.Link) bool {
	return len(chain) > 0 && slices.Contains(prompt, chain[len(chain)-1])
}

// nameOf is the replica that does best for a prompt.
func (s *Share) nameOf(model string, prompt []mesh.Link) (name store.Name, ok bool) {
	at, best := places(prompt), fit{at: -1}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, stay := range s.kept {
		if stay.Model != model {
			continue
		}
		if f := fitOf(&stay, at); f.at >= 0 && f.beats(best) {
			name, best = n, f
		}
	}
	return name, best.at >= 0
}

// pull brings the state of the turn's conversation from a member into this node's store. An engine with much to do may not be
// stopped for the newest one; the one before it is better than none.
func (s *Share) pull(ctx context.Context, t *Turn, r *restored) (store.Name, error) {
	name, err := s.pullTo(ctx, t, r, t.Fetch.Link)
	if earlier := t.Fetch.Stored; errors.Is(err, transfer.ErrNone) && earlier >= 0 && earlier < t.Fetch.Link {
		name, err = s.pullTo(ctx, t, r, earlier)
	}
	if t.Fetch.Stored >= 0 { // what lies in a slot may as well not be worth a save
		s.holdTo(t.Fetch.Member, t.Fetch.Tokens, err)
	}
	if err == nil && r.goesOn {
		s.supersede(t, name)
	}
	return name, err
}

// holdTo holds a member to its word that it stores so many tokens of a conversation: that it has not, or sends something else,
// counts like what its engines turn out not to hold. Whoever cannot be reached has not lied.
func (s *Share) holdTo(m mesh.Member, tokens int, err error) {
	switch {
	case err == nil:
		s.cfg.Known.Prove(m, tokens, tokens)
	case errors.Is(err, transfer.ErrNone), errors.Is(err, transfer.ErrGone), errors.Is(err, transfer.ErrWrong):
		s.cfg.Known.Prove(m, tokens, 0)
	}
}

func (s *Share) pullTo(ctx context.Context, t *Turn, r *restored, link int) (store.Name, error) {
	n := link + 1
	return s.bring(ctx, t.Fetch.Member, r, mesh.Resident{
		Model: t.Model, Session: t.Session, Chain: slices.Clone(t.Prompt[:n]), Marks: slices.Clone(t.Marks[:n]), Tokens: t.Marks[n-1],
	})
}

// bring fetches from a member what it has of a conversation, by the last link of stay, and keeps it.
func (s *Share) bring(ctx context.Context, from mesh.Member, r *restored, stay mesh.Resident) (store.Name, error) {
	net := s.net.Load()
	if net == nil {
		return "", errNobody
	}
	began := time.Now()
	state, err := net.ask(ctx, from, linkName(stay.Chain[len(stay.Chain)-1]))
	if err != nil {
		return "", err
	}
	name, m := store.Name(state.Name), state.Manifest
	r.goesOn = slices.ContainsFunc(r.prompt, func(l mesh.Link) bool { return linkName(l) == state.Last })
	if !r.goesOn { // it is of another one that began alike
		name = newName()
	}
	if m.Key != r.key {
		return "", errForeign
	}
	a, err := s.store.Begin(name, m)
	if err != nil {
		return "", err
	}
	defer a.Abort()
	carry := net.Client.Fetch
	if r.moved == "" { // nobody waits for it
		carry = net.Client.Copy
	}
	got, err := carry(ctx, from, m, a.Lacks(), a.Put)
	r.via = got.Path
	s.carried(r, got)
	if err != nil {
		return "", err
	}
	if err := a.Commit(); err != nil {
		return "", err
	}
	r.took.fetch = time.Since(began)
	if r.goesOn && m.Tokens > 0 {
		stay.Tokens = m.Tokens
	}
	s.keep(name, r.key, m, stay)
	return name, nil
}

// supersede gives up earlier states of a turn's conversation, saved here under another name before it had been elsewhere.
func (s *Share) supersede(t *Turn, by store.Name) {
	at := places(t.Prompt)
	var old []store.Name
	s.mu.Lock()
	for name, stay := range s.kept {
		last := len(stay.Chain) - 1
		if name != by && last > 0 && stay.Model == t.Model && stay.Session == t.Session && t.Session != "" {
			if _, ok := at[stay.Chain[last]]; ok {
				old = append(old, name)
			}
		}
	}
	s.mu.Unlock()
	for _, r := range s.store.List() {
		if slices.Contains(old, r.Name) {
			s.store.Drop(r.Name, r.Key)
		}
	}
}

// assemble writes the state where the engine can read it.
func (s *Share) assemble(ctx context.Context, backend string, r *restored) error {
	folder, ok := s.cfg.Engine.SlotFolder(backend)
	if !ok {
		return errors.New("the engine has no folder for states any more")
	}
	began := time.Now()
	in, err := s.store.Reader(r.name, r.key)
	if err != nil {
		return err
	}
	defer in.Close()
	path := filepath.Join(folder, string(newName())+".in")
	if err := in.Assemble(ctx, path); err != nil {
		return err
	}
	r.file = path
	m := in.Manifest()
	r.size, r.count = m.Size, m.Tokens
	if f, err := os.Open(path); err == nil {
		if state, err := replica.Read(f, m.Size); err == nil {
			r.tokens = state.Tokens
		}
		f.Close()
	}
	r.took.assemble = time.Since(began)
	return nil
}

// restore has the engine read the state for a turn into a slot that may be lost. It wants the gate held. That an engine
// refuses a state speaks against the states; that it has ended, or that its slot is taken meanwhile, does not.
func (s *Share) restore(ctx context.Context, t *Turn, r *restored, slot int) bool {
	ctx, cancel := context.WithTimeout(ctx, t.Fetch.Within)
	defer cancel()
	began := time.Now()
	f, err := s.cfg.Engine.RestoreSlot(ctx, t.Backend, slot, r.file)
	r.took.restore = time.Since(began)
	switch {
	case errors.Is(err, engine.ErrSlotRefused):
		s.log.Warn("an engine did not take a conversation's cache; the prompt is computed instead", "backend", t.Backend, "error", err)
		s.disproved(t.Model, r)
		return false
	case err != nil:
		s.failed(t, r, err)
		return false
	}
	if f.Tokens > 0 {
		r.count = f.Tokens
	}
	s.imported(t.Model, r)
	return true
}

func linkName(l mesh.Link) string {
	text, _ := l.MarshalText() // never fails
	return string(text)
}

// Manifest is what a member asks for: the state of the conversation that has this link. One that is not stored as it stands is
// saved first, if its slot is idle.
func (s *Share) Manifest(ctx context.Context, link string) (transfer.State, error) {
	var l mesh.Link
	if s == nil || l.UnmarshalText([]byte(link)) != nil {
		return transfer.State{}, store.ErrNotFound
	}
	s.saveFor(ctx, l)
	s.settle(ctx, l)
	s.mu.Lock()
	at, best := places([]mesh.Link{l}), fit{at: -1}
	var name store.Name
	var last mesh.Link
	for n, stay := range s.kept {
		if f := fitOf(&stay, at); f.at >= 0 && f.beats(best) {
			name, best, last = n, f, stay.Chain[len(stay.Chain)-1]
		}
	}
	s.mu.Unlock()
	for _, r := range s.store.List() {
		if r.Name != name {
			continue
		}
		in, err := s.store.Reader(name, r.Key)
		if err != nil {
			return transfer.State{}, err
		}
		defer in.Close()
		s.store.Touch(name, r.Key)
		return transfer.State{Name: string(name), Last: linkName(last), Manifest: in.Manifest()}, nil
	}
	return transfer.State{}, store.ErrNotFound
}

// Chunk is a piece of a state in this node's store.
func (s *Share) Chunk(sum replica.Sum, buf []byte) ([]byte, error) {
	if s == nil {
		return nil, store.ErrNotFound
	}
	return s.store.Chunk(sum, buf)
}

// saveFor saves the conversation that ends with a link, if it lies idle in a slot and is not saved yet.
func (s *Share) saveFor(ctx context.Context, l mesh.Link) {
	s.mu.Lock()
	var b *bench
	var c *conv
	for _, other := range s.benches {
		for _, conv := range other.convs {
			if n := len(conv.stay.Chain); n > 0 && conv.stay.Chain[n-1] == l && !conv.saved && !conv.running {
				b, c = other, conv
			}
		}
	}
	s.mu.Unlock()
	if c == nil || !b.lock(ctx) {
		return
	}
	defer b.unlock()
	s.mu.Lock()
	late := c.saved || c.running || !slices.Contains(b.convs, c) // while the gate was waited for
	s.mu.Unlock()
	if !late && s.pays(b, c) {
		s.saveNow(context.WithoutCancel(ctx), b, c)
	}
}
