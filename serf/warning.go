package serf

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of the warnings: strangers cause some of them, from as many addresses as they like.
const (
	maxWarnings = 32
	warningTime = 10 * time.Minute // a warning stands this long after its last cause
	rivalTime   = 15 * time.Second // these are looked for every second
)

// What Warning.ID says, stable for scripts.
const (
	warnSecret   = "gossip-secret"    // a peer has another secret
	warnNoSecret = "gossip-no-secret" // a peer has none
	warnOpen     = "gossip-open"      // a peer has one, and this node none
	warnGarbage  = "gossip-garbage"   // a peer sends what is no gossip
	warnMember   = "gossip-member"    // a peer says impossible things about a member
	warnUDP      = "gossip-udp"       // only half of the traffic gets through
	warnPublic   = "gossip-public"    // an open mesh at a public address
	warnName     = "name-clash"
	warnID       = "id-clash"
)

// Warning is something the owner should know.
type Warning struct {
	ID   string     // what kind, stable
	Text string     // what happens, and at which machine
	Fix  string     // what to do
	Addr netip.Addr // the machine's, zero if it is this one
	At   time.Time  // when its cause was last seen
	ttl  time.Duration
}

// warnings is a bounded table; each is logged when it appears and no more while it stands.
type warnings struct {
	mu  sync.Mutex // guards all below; held while nothing else is called
	all map[warningKey]Warning
}

type warningKey struct {
	id   string
	addr netip.Addr
}

// Warnings returns those that stand, the latest first.
func (c *Cluster) Warnings() []Warning { return c.warnings.list(time.Now()) }

func (t *warnings) list(now time.Time) []Warning {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	list := make([]Warning, 0, len(t.all))
	for _, w := range t.all {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b Warning) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID), a.Addr.Compare(b.Addr))
	})
	return list
}

func (t *warnings) expire(now time.Time) {
	for key, w := range t.all {
		if now.Sub(w.At) > w.ttl {
			delete(t.all, key)
		}
	}
}

// note records w and reports whether it is news. When the table is full no others are taken in until one expires: a
// stranger with many addresses must not push out what stands, nor fill the log.
func (t *warnings) note(w Warning) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(w.At)
	key := warningKey{w.ID, w.Addr}
	_, known := t.all[key]
	if !known && len(t.all) >= maxWarnings {
		return false
	}
	if t.all == nil {
		t.all = map[warningKey]Warning{}
	}
	t.all[key] = w
	return !known
}

// warn notes w and logs it if it is news.
func (c *Cluster) warn(w Warning) {
	if c.warnings.note(w) {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, w.Text, slog.String("id", w.ID), slog.String("fix", w.Fix))
	}
}

// who names the machine at addr by the member known there, or by the address alone.
func (c *Cluster) who(addr netip.Addr) string {
	if m, ok := c.at(addr); ok {
		return fmt.Sprintf("%s (%s)", m.Name, addr)
	}
	return fmt.Sprintf("the machine at %s", addr)
}

// stranger is a warning about who gossips and does not belong here.
func (c *Cluster) stranger(id string, addr netip.Addr) Warning {
	w := Warning{ID: id, Addr: addr, At: time.Now(), ttl: warningTime}
	const let = "; nothing of it was let in"
	switch id {
	case warnSecret:
		w.Text = c.who(addr) + " has another mesh secret than this node" + let
		w.Fix = "give the one that is wrong the mesh's secret in VIIWORK_MESH_SECRET, or the file that VIIWORK_MESH_SECRET_FILE names, and restart it"
	case warnNoSecret:
		w.Text = c.who(addr) + " has no mesh secret and this node has one" + let
		w.Fix = "give it the mesh's secret (VIIWORK_MESH_SECRET or VIIWORK_MESH_SECRET_FILE) instead of mesh.open and restart it, or keep it off this network"
	case warnOpen:
		w.Text = c.who(addr) + " has a mesh secret and this node is set to mesh.open" + let
		w.Fix = "give this node the mesh's secret (VIIWORK_MESH_SECRET or VIIWORK_MESH_SECRET_FILE) instead of mesh.open and restart it"
	default:
		w.Text = c.who(addr) + " sends what is no gossip of a mesh" + let
		w.Fix = "find out what it runs; on a shared port, set mesh.bind_port to another on all nodes"
	}
	return w
}

// refused is a warning about a member that was not taken in.
func (c *Cluster) refused(addr netip.Addr, why error) Warning {
	return Warning{
		ID: warnMember, Addr: addr, At: time.Now(), ttl: warningTime,
		Text: fmt.Sprintf("a member was refused, said to be at %s: %v", addr, why),
		Fix:  "update that machine's viiwork, or set mesh.bind_port to another on all nodes if something else gossips here",
	}
}

// rivalry is a warning about a living machine with our name or id, both to stay.
func (c *Cluster) rivalry(rival Member) Warning {
	w := Warning{
		ID: warnName, Addr: rival.Addr.Addr(), At: time.Now(), ttl: rivalTime,
		Text: fmt.Sprintf("the machine at %s (id %s) is called %s too", rival.Addr, rival.ID, rival.Name),
		Fix:  "give one of the two another node.name",
	}
	if rival.ID == c.cfg.ID {
		w.ID = warnID
		w.Text = fmt.Sprintf("the machine at %s, called %s, has this node's id %s too", rival.Addr, rival.Name, rival.ID)
		w.Fix = "was its state folder copied? Remove node.state_dir on one of them"
	}
	return w
}
