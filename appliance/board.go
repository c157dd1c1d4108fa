package appliance

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/tsnode"
	"viiwork/update/rollout"
)

// picture is what a board is made from: of each node what it tells of its capacity, and what it tells of itself.
type picture struct {
	now   time.Time
	self  string
	nodes []pictured // this node first
}

// pictured is one node. Without view it has told nothing of itself lately, without report nothing at all.
type pictured struct {
	status.Member
	id     string
	self   bool
	report *mesh.Report
	view   *status.View
	at     time.Time // when the view came
	skew   *time.Duration
	rtt    time.Duration
	dns    string // on a tailnet
	path   string
}

// picture takes it all in.
func (a *Appliance) picture(ctx context.Context) picture {
	own := a.view(maxBoardEnded)
	report := a.report()
	p := picture{now: time.Now(), self: own.Node.Node}
	told := a.views.look(ctx)
	byID := map[string]mesh.NodeState{}
	ids := map[string]string{} // by name and address: what members() lists has no id
	for _, n := range a.mesh.table.Snapshot() {
		byID[n.Member.ID] = n
		ids[n.Member.Name+" "+n.Member.Addr] = n.Member.ID
	}
	f := a.mesh.current()
	peers := map[string]tsnode.Peer{}
	for _, peer := range a.mesh.node.Peers() {
		peers[peer.ID] = peer
	}
	for i, m := range a.members() {
		n := pictured{Member: m, self: i == 0}
		if n.self {
			n.report, n.view, n.at, n.dns = &report, &own, p.now, a.mesh.node.Status().DNSName
			p.nodes = append(p.nodes, n)
			continue
		}
		n.id = ids[m.Name+" "+m.Addr]
		if m.State == "left" || m.State == "failed" {
			p.nodes = append(p.nodes, n)
			continue
		}
		n.report = byID[n.id].Report
		if t, ok := told[n.id]; ok && n.id != "" {
			n.view, n.at, n.skew = &t.View, t.at, t.skew
		}
		if f != nil && n.id != "" {
			n.rtt = f.client.RTT(n.id)
			n.dns, n.path = peers[n.id].DNSName, peers[n.id].Path
		}
		p.nodes = append(p.nodes, n)
	}
	return p
}

// here is a time of the node's clock by this one's. Clocks that differ by less than a second are one.
func (n pictured) here(at time.Time) time.Time {
	if n.skew == nil || n.skew.Abs() < time.Second || at.IsZero() {
		return at
	}
	return at.Add(-*n.skew)
}

// Board is the mesh as this node's pages show it.
func (a *Appliance) Board(ctx context.Context) status.Board {
	b := a.picture(ctx).board(a.aliases())
	b.Turns = turnsOf(a.rollout())
	b.Open = !a.mesh.keys.Load().Secured() && b.Network == "lan"
	return b
}

func (p picture) board(aliases []status.Alias) status.Board {
	own := p.nodes[0].view.Node
	b := status.Board{
		Node: p.self, Version: own.Version, Network: own.Network, State: own.State, Time: p.now.UTC(),
		Requests: p.requests(), Pairs: p.pairs(), Moves: p.moves(), Firsts: p.firsts(), Cards: p.cards(),
		Aliases: []status.BoardAlias{}, Warnings: p.warnings(),
	}
	b.Uses = p.uses(b.Requests)
	b.Engines, b.Seats = p.engines(b.Requests)
	for _, al := range aliases {
		b.Aliases = append(b.Aliases, status.BoardAlias{Key: al.Name, Alias: al})
	}
	b.Served = p.served(b)
	b.Machines = p.machines(b)
	b.Totals = []status.Total{p.total(b)}
	return b
}

// turnsOf lists whose turn it is and was, while that is of interest: of a roll-out that has ended, who does not have the version.
func turnsOf(r *status.Rollout) []status.BoardTurn {
	all := []status.BoardTurn{}
	if r == nil {
		return all
	}
	for _, m := range r.Members {
		if r.Stage == string(rollout.Ended) && m.State == string(rollout.Done) {
			continue
		}
		t := status.BoardTurn{Key: m.Name, Name: m.Name, From: m.From, To: r.Version, State: m.State, Why: m.Why, Lead: r.Lead}
		if m.Act != "" {
			t.State = m.Act
		}
		if m.State == string(rollout.Updating) && t.Why == "" {
			t.Why = r.Why
		}
		all = append(all, t)
	}
	return all
}

// machines lists the nodes by what is known of each.
func (p picture) machines(b status.Board) (all []status.Machine) {
	newest := ""
	for _, n := range p.nodes {
		if n.State == "alive" && newer(n.Version, newest) {
			newest = n.Version
		}
	}
	for _, n := range p.nodes {
		m := status.Machine{
			Key: n.Name + "|" + n.Addr, Name: n.Name, Self: n.self, State: n.State, Version: n.Version, Old: newer(newest, n.Version), Addr: n.Addr, Told: n.view != nil,
			DNSName: n.dns, Path: n.path,
		}
		if n.Addr != "" && !n.self {
			m.URL = "http://" + n.Addr
		}
		if n.AgeMS >= 0 && !n.self && n.report != nil {
			m.Heard = ptr(p.now.Add(-time.Duration(n.AgeMS) * time.Millisecond).Truncate(time.Second).UTC())
		}
		if n.rtt > 0 {
			m.RTTMS = ptr(math.Round(float64(n.rtt.Microseconds())/100) / 10)
		}
		p.capacity(&m, n)
		p.ownWord(&m, n, b)
		all = append(all, m)
	}
	return all
}

// capacity fills in what a node's report says.
func (p picture) capacity(m *status.Machine, n pictured) {
	if n.report == nil {
		return
	}
	slots, free, queued := 0, 0, 0
	for _, model := range n.report.Models {
		s, f := model.Slots()
		slots, free, queued = slots+s, free+f, queued+model.Waiting
	}
	m.Slots, m.Free, m.Running, m.Queued, m.Models = &slots, &free, ptr(slots-free), &queued, ptr(len(n.report.Models))
	if n.report.Draining && n.view != nil { // its slots are for nobody, and what runs in them still runs
		m.Running = ptr(n.working())
	}
}

// working counts the slots that are at work, by the node's own word.
func (n pictured) working() (busy int) {
	for _, slots := range n.ownSlots() {
		for _, s := range slots {
			if s.State != "free" {
				busy++
			}
		}
	}
	return busy
}

// ownWord fills in what only the node can know.
func (p picture) ownWord(m *status.Machine, n pictured, b status.Board) {
	if n.view == nil {
		return
	}
	if n.skew != nil {
		m.SkewMS = ptr(n.skew.Milliseconds())
	}
	switch started := n.view.Started; {
	case started.IsZero(): // it does not tell
	case n.self:
		m.Started = ptr(started.Truncate(time.Second).UTC())
	default:
		m.Started = ptr(n.here(started).Round(5 * time.Second).UTC())
	}
	if all := n.view.Node.Warnings; all != nil { // an older one may have no such list, which is not an empty one
		m.Warnings = ptr(len(all))
	}
	if all := n.view.Node.GPUs; all != nil {
		m.Cards = ptr(len(all))
	}
	if pw := n.view.Power; pw != nil {
		m.Watts, m.KWhToday = ptr(math.Round(pw.Watts)), ptr(math.Round(pw.KWhToday*100)/100)
	}
	var used, memory int64
	for _, c := range n.view.Node.GPUs {
		if c.Used == nil || c.Memory == nil {
			return // a part of it would look like all
		}
		used, memory = used+*c.Used, memory+*c.Memory
	}
	if memory > 0 {
		m.Used, m.Memory = &used, &memory
	}
}

// atCap is the share of what a card may take from which on the limit is taken to hold it back where the driver does not say:
// readings stay a little below it.
const atCap = 0.97

func capped(c status.GPU) bool {
	if c.ByPower != nil {
		return *c.ByPower
	}
	return c.Watts != nil && c.CapWatts != nil && *c.CapWatts > 0 && *c.Watts >= atCap**c.CapWatts
}

// cards lists those of all machines that tell.
func (p picture) cards() []status.Card {
	all := []status.Card{}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		for _, c := range n.view.Node.GPUs {
			all = append(all, status.Card{
				Key: n.Name + "|" + c.Accel + "|" + itoa(c.Index), Node: n.Name, Self: n.self, Index: c.Index, Accel: c.Accel, Name: c.Name, Model: c.Model,
				Planned: c.Planned, Used: c.Used, Memory: c.Memory, Busy: c.Busy, Celsius: c.Celsius, Watts: c.Watts, CapWatts: c.CapWatts,
				Capped: capped(c), Hot: c.ByHeat != nil && *c.ByHeat,
			})
		}
	}
	return all
}

// total sums up what is told.
func (p picture) total(b status.Board) status.Total {
	t := status.Total{Key: "mesh", Machines: len(p.nodes), Warnings: len(b.Warnings)}
	var rate float64
	for _, m := range b.Machines {
		if m.State == "alive" || m.State == "draining" {
			t.Alive++
		}
		if m.Told {
			t.Told++
		}
		if m.Slots != nil {
			t.Slots, t.Free, t.Running, t.Queued = t.Slots+*m.Slots, t.Free+*m.Free, t.Running+*m.Running, t.Queued+*m.Queued
		}
		t.Watts, t.KWhToday = sum(t.Watts, m.Watts), sum(t.KWhToday, m.KWhToday)
	}
	for _, r := range b.Requests {
		if r.Live && r.OutputTPS != nil {
			rate += *r.OutputTPS
		}
	}
	for _, s := range b.Served {
		if s.Refused != nil {
			t.Refused += *s.Refused
		}
	}
	t.OutputTPS = ptr(math.Round(rate*10) / 10)
	return t
}

func sum(all, one *float64) *float64 {
	switch {
	case one == nil:
		return all
	case all == nil:
		return ptr(*one)
	}
	return ptr(*all + *one)
}

// warnings are this node's, which knows of the mesh, and what the others say of themselves alone.
func (p picture) warnings() []status.BoardWarning {
	all := []status.BoardWarning{}
	seen := map[status.Warning]bool{}
	for _, n := range p.nodes {
		if n.view == nil {
			continue
		}
		for _, w := range n.view.Node.Warnings {
			if seen[w] {
				continue // of the mesh: each sees it
			}
			seen[w] = true
			all = append(all, status.BoardWarning{Key: n.Name + "|" + w.ID + "|" + w.Text, Node: n.Name, Warning: w})
		}
	}
	return all
}

// newer reports whether release a came after b. What is no release's number is neither newer nor older than anything.
func newer(a, b string) bool {
	x, y := release(a), release(b)
	return x != nil && (y != nil || b == "") && slices.Compare(x, y) > 0
}

// release reads 2.1.0 and, of a build between releases, v2.1.0-5-gabcdef.
func release(v string) (numbers []int) {
	rest := strings.Split(strings.TrimPrefix(v, "v"), "-")
	parts := strings.Split(rest[0], ".")
	if len(rest) > 1 {
		parts = append(parts, rest[1])
	}
	for i, part := range parts {
		n, ok := count(part)
		if !ok && i < 3 || len(parts) < 3 {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func count(s string) (n int, ok bool) {
	for _, c := range s {
		if c < '0' || c > '9' || n > 1e8 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, s != ""
}

func ptr[T any](v T) *T { return &v }
