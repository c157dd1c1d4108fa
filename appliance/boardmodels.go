package appliance

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/history"
	"viiwork/appliance/status"
)

// states of engines, the best first: a model is as well as its best one.
var states = []string{"ready", "busy", "loading", "starting", "restarting", "draining", "silent", "unknown", "failed"}

// served lists the models of the mesh.
func (p picture) served(b status.Board) []status.Served {
	byName := map[string]*status.Served{}
	hosts := map[string][]string{}
	at := func(name string) *status.Served {
		if byName[name] == nil {
			byName[name] = &status.Served{Key: name, Name: name, State: "failed"}
		}
		return byName[name]
	}
	for _, e := range b.Engines {
		m := at(e.Model)
		if !slices.Contains(hosts[e.Model], e.Node) {
			hosts[e.Model] = append(hosts[e.Model], e.Node)
		}
		if slices.Index(states, e.State) < slices.Index(states, m.State) {
			m.State, m.Progress = e.State, e.Progress
		}
		m.Slots, m.Free = plus(m.Slots, e.Slots), plus(m.Free, e.Free)
		if e.Context != nil && (m.Context == nil || *e.Context < *m.Context) {
			m.Context = e.Context
		}
	}
	p.lines(byName, at)
	p.oldest(b, byName)
	for _, al := range b.Aliases {
		if m := byName[al.Target]; m != nil && al.State == "ok" {
			m.Aliases = strings.Trim(m.Aliases+", "+al.Name, ", ")
		}
	}
	list := []status.Served{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		byName[name].Hosts = strings.Join(hosts[name], ", ")
		list = append(list, *byName[name])
	}
	return list
}

// lines adds up who waits where, and who was refused.
func (p picture) lines(byName map[string]*status.Served, at func(string) *status.Served) {
	for _, n := range p.nodes {
		if n.report != nil {
			for _, m := range n.report.Models {
				s := at(m.Name)
				s.Queued = plus(s.Queued, &m.Waiting)
			}
		}
	}
	for _, n := range p.nodes {
		if n.view == nil || n.view.Refused == nil { // an older one does not tell, which is not none
			continue
		}
		for name, s := range byName { // whoever it came in by, with the model or without
			refused := n.view.Refused[name]
			s.Refused = plus(s.Refused, &refused)
		}
	}
}

// oldest is the longest wait of each model, to a second.
func (p picture) oldest(b status.Board, byName map[string]*status.Served) {
	for _, r := range b.Requests {
		m := byName[r.Model]
		if r.State != "queued" || m == nil || r.Time.IsZero() {
			continue
		}
		if ms := p.now.Sub(r.Time).Truncate(time.Second).Milliseconds(); m.OldestMS == nil || ms > *m.OldestMS {
			m.OldestMS = &ms
		}
	}
}

// plus adds what is known.
func plus(all, one *int) *int {
	if one == nil {
		return all
	}
	n := *one
	if all != nil {
		n += *all
	}
	return &n
}

// pairs are those of all nodes that tell: each of what came to it.
func (p picture) pairs() []status.BoardPair {
	all := []status.BoardPair{}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		for _, pair := range n.view.KV.Pairs {
			all = append(all, status.BoardPair{Key: n.Name + "|" + pair.From + "|" + pair.To + "|" + pair.Path, KVPair: pair})
		}
	}
	return all
}

// moves are what each node says of the caches it moves.
func (p picture) moves() []status.BoardMoves {
	all := []status.BoardMoves{}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		kv := n.view.KV
		if kv.Mode == "" {
			continue // it does not tell
		}
		for _, m := range kv.Models {
			all = append(all, status.BoardMoves{
				Key: n.Name + "|" + m.Name, Node: n.Name, Mode: kv.Mode, KVModel: m, StoreBytes: kv.Store.Bytes, StoreBudget: kv.Store.Budget,
			})
		}
		if len(kv.Models) == 0 {
			all = append(all, status.BoardMoves{Key: n.Name + "|", Node: n.Name, Mode: kv.Mode})
		}
	}
	return all
}

// firsts adds up the nodes' counts.
func (p picture) firsts() []status.BoardFirst {
	type kind struct{ model, class, host string }
	hour, day := map[kind][]int{}, map[kind][]int{}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		for _, f := range n.view.Firsts {
			k := kind{f.Model, f.Class, f.Host}
			if f.Window == "1h" {
				hour[k] = history.Add(hour[k], f.Counts)
			} else {
				day[k] = history.Add(day[k], f.Counts)
			}
		}
	}
	all := []status.BoardFirst{}
	for k, c := range day {
		h := hour[k]
		all = append(all, status.BoardFirst{
			Key: k.model + "|" + k.class + "|" + k.host, Model: k.model, Host: k.host, Class: k.class,
			Hour: history.Count(h), Hour50: history.Quantile(h, 0.5), Hour95: history.Quantile(h, 0.95),
			Day: history.Count(c), Day50: history.Quantile(c, 0.5), Day95: history.Quantile(c, 0.95),
		})
	}
	slices.SortFunc(all, func(x, y status.BoardFirst) int { return cmp.Compare(x.Key, y.Key) })
	markSlow(all)
	return all
}
