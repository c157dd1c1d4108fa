package mesh

import (
	"maps"
	"slices"
)

// merge takes in what another node says. gained tells that this node knows more than before, more that it knows more than
// the other one.
func (a *Aliases) merge(theirs []Alias) (gained, more bool) {
	now := a.cfg.Now()
	told := map[string]Alias{}
	for _, e := range theirs {
		if e, ok := e.believed(now); ok {
			join(told, e)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	next := maps.Clone(a.entries)
	for _, e := range told {
		join(next, e)
	}
	a.trim(next)
	before := a.view.Load().digest
	if maps.Equal(next, a.entries) {
		return false, before != digestOf(told)
	}
	if err := a.store(next); err != nil { // it holds until the next start, and comes again from the others then
		a.cfg.Log.Error("the aliases of the mesh are not stored", "error", err)
	}
	a.entries = next
	a.show()
	digest := a.view.Load().digest
	return digest != before, digest != digestOf(told)
}

// purge forgets what was removed long ago.
func (a *Aliases) purge() {
	now := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	next := maps.Clone(a.entries)
	maps.DeleteFunc(next, func(_ string, e Alias) bool { return e.expired(now) })
	if len(next) == len(a.entries) {
		return
	}
	if err := a.store(next); err != nil {
		a.cfg.Log.Error("the aliases of the mesh are not stored", "error", err)
	}
	a.entries = next
	a.show()
}

// trim brings next within the bounds and reports whether it can hold all living ones: the longest removed are forgotten
// first, then what this node did not have before. It wants the lock held.
func (a *Aliases) trim(next map[string]Alias) bool {
	bytes := 0
	for _, e := range next {
		bytes += e.size()
	}
	over := func() bool { return len(next) > maxAliases || bytes > maxAliasBytes-aliasFrame }
	if !over() {
		return true
	}
	drop := func(e Alias) {
		delete(next, e.Name)
		bytes -= e.size()
	}
	list := sorted(next)
	slices.SortStableFunc(list, func(x, y Alias) int { return int(min(1, max(-1, x.At-y.At))) })
	for _, e := range list {
		if e.Deleted && over() {
			drop(e)
		}
	}
	if !over() {
		return true
	}
	for _, e := range sorted(next) {
		if _, held := a.entries[e.Name]; !held && over() {
			drop(e)
		}
	}
	if !a.crowded {
		a.cfg.Log.Warn("the mesh has more aliases than a node keeps: remove some with 'viiwork alias rm'")
	}
	a.crowded = true
	return false
}
