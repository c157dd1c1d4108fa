package mesh

import (
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the aliases of a mesh.
const (
	MaxLivingAliases = 1000    // that people may make
	maxAliases       = 4000    // with the removed ones that are remembered
	maxAliasBytes    = 1 << 20 // of JSON, in the file and between nodes
)

// Reasons an alias is not changed.
var (
	ErrAliasName   = errors.New("an alias is 1 to 200 of the letters a to z, digits and ._:/@+-, and begins with a letter or a digit; it leads to a model, by its name")
	ErrAliasItself = errors.New("an alias cannot lead to itself: name a model")
	ErrAliasesFull = errors.New("the mesh has as many aliases as it can: remove one that nobody needs with 'viiwork alias rm'")
	ErrNoAlias     = errors.New("there is no such alias")
	ErrNoPrevious  = errors.New("the alias led nowhere else before: point it at a model with 'viiwork alias set'")
	ErrNoPlace     = errors.New("this node has no place in the mesh yet")
)

// AliasesConfig is what Aliases are made of.
type AliasesConfig struct {
	Dir     string            // where aliases.json is kept; "" = not kept
	Propose map[string]string // name to model, taken up at the very first start where the mesh says nothing else
	Now     func() time.Time  // nil = time.Now
	Log     *slog.Logger      // nil = silent
}

// Aliases are the names that the whole mesh has for models. Every node keeps all of them; a [Herald] brings together what
// was written at different nodes.
type Aliases struct {
	cfg     AliasesConfig
	path    string
	written chan struct{} // holds one: this node has something to tell

	view  atomic.Pointer[aliasView] // what everybody reads
	aside atomic.Bool               // a file that could not be read was put aside

	mu      sync.Mutex // of writers, held while the file is written; guards what follows
	id      string     // this node's, "" before Join
	entries map[string]Alias
	first   bool // nothing was kept: it is this node's first start
	crowded bool // more than fits came from others; said
}

// aliasView is the table at one moment. It is never changed.
type aliasView struct {
	living   []Alias // by name
	targets  map[string]string
	entries  int
	digest   [32]byte
	document []byte
}

// NewAliases makes an empty table.
func NewAliases(cfg AliasesConfig) *Aliases {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Aliases{cfg: cfg, written: make(chan struct{}, 1), entries: map[string]Alias{}}
	if cfg.Dir != "" {
		a.path = filepath.Join(cfg.Dir, "aliases.json")
	}
	a.show()
	return a
}

// Targets maps each alias to its model. It is shared and must not be changed.
func (a *Aliases) Targets() map[string]string { return a.view.Load().targets }

// List gives all aliases by name. It is shared and must not be changed.
func (a *Aliases) List() []Alias { return a.view.Load().living }

// Join says which node this is, which it must be before it can write; at its very first start it proposes what its owner
// configured.
func (a *Aliases) Join(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id = id
	if !a.first {
		return
	}
	a.first = false
	next := maps.Clone(a.entries)
	for name, target := range a.cfg.Propose {
		if e, ok := (Alias{Name: name, Target: target, Node: id, At: a.cfg.Now().UnixMilli()}).believed(a.cfg.Now()); ok {
			join(next, e)
		}
	}
	a.trim(next)
	if err := a.keep(next); err != nil {
		a.cfg.Log.Error("the aliases of the configuration are not stored", "error", err)
	}
}

// CheckAlias tells whether name may be an alias of target, by their letters: ErrAliasName or ErrAliasItself where not.
func CheckAlias(name, target string) error {
	switch {
	case !isAliasName(name) || !isTarget(target):
		return ErrAliasName
	case name == target:
		return ErrAliasItself
	}
	return nil
}

// Set makes name lead to target. That the one is no model and the other one is the caller has made sure of. Setting an
// alias to what it leads to changes nothing. It returns ErrAliasName, ErrAliasItself, ErrAliasesFull, ErrNoPlace, or why
// the table could not be stored; nothing has changed then.
func (a *Aliases) Set(name, target string) (Alias, error) {
	if err := CheckAlias(name, target); err != nil {
		return Alias{}, err
	}
	return a.write(name, func(e Alias, known bool) (Alias, error) {
		living := known && !e.Deleted
		if !living && len(a.view.Load().living) >= MaxLivingAliases {
			return e, ErrAliasesFull
		}
		if living && e.Target == target && e.Version > 0 {
			return e, nil
		}
		if known && e.Target != target {
			e.Prev = e.Target
		}
		e.Name, e.Target, e.Deleted = name, target, false
		return e, nil
	})
}

// Remove ends an alias and returns it as it was. It returns ErrNoAlias, ErrNoPlace, or why the table could not be stored.
func (a *Aliases) Remove(name string) (Alias, error) {
	return a.write(name, func(e Alias, known bool) (Alias, error) {
		if !known || e.Deleted {
			return e, ErrNoAlias
		}
		e.Deleted = true
		return e, nil
	})
}

// Before tells where an alias led before its last change: Set to that takes the change back. Of one that was removed it is
// where it led then. It returns ErrNoAlias or ErrNoPrevious.
func (a *Aliases) Before(name string) (target string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, known := a.entries[name]
	switch {
	case !known:
		return "", ErrNoAlias
	case e.Deleted:
		return e.Target, nil
	case e.Prev == "":
		return "", ErrNoPrevious
	}
	return e.Prev, nil
}

// write replaces one entry by what edit makes of it, under the next version.
func (a *Aliases) write(name string, edit func(e Alias, known bool) (Alias, error)) (Alias, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id == "" {
		return Alias{}, ErrNoPlace
	}
	was, known := a.entries[name]
	e, err := edit(was, known)
	if err != nil || known && e == was {
		return e, err
	}
	e.Version, e.Node, e.At = was.Version+1, a.id, a.cfg.Now().UnixMilli()
	next := maps.Clone(a.entries)
	next[name] = e
	if !a.trim(next) {
		return Alias{}, ErrAliasesFull
	}
	if err := a.keep(next); err != nil {
		return Alias{}, err
	}
	return e, nil
}

// keep stores next and makes it what everybody reads. It wants the lock held.
func (a *Aliases) keep(next map[string]Alias) error {
	if err := a.store(next); err != nil {
		return err
	}
	a.entries = next
	a.show()
	select {
	case a.written <- struct{}{}:
	default:
	}
	return nil
}

// show makes the entries what everybody reads. It wants the lock held.
func (a *Aliases) show() {
	v := &aliasView{targets: map[string]string{}, entries: len(a.entries), digest: digestOf(a.entries), document: encodeAliases(a.entries)}
	for _, e := range sorted(a.entries) {
		if !e.Deleted {
			v.living = append(v.living, e)
			v.targets[e.Name] = e.Target
		}
	}
	a.view.Store(v)
}
