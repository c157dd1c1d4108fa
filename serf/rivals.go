package serf

import (
	"fmt"
	"net"
	"time"
)

// settleTime of company makes a node one that belongs here: long enough to hear of every member, so that a name that
// is claimed later is claimed by a newcomer, whatever that one says about its age.
const settleTime = 30 * time.Second

// twinTime is how long after it was last heard of a twin is still asked: until the others have noticed that it is dead.
const twinTime = 15 * time.Second

// judge looks for living machines with our name or our id. Between two the one that started later gives up, and the
// greater id when both started in the same millisecond. A start is by the machine's own clock: should both think they
// were first, or have both been here for long (as after a split), both stay and warn.
func (w *watch) judge(now time.Time) error {
	w.settle(now)
	if now.Sub(w.twinAt) <= twinTime {
		if err := w.contend(w.twin); err != nil {
			return err
		}
	}
	for _, m := range *w.c.members.Load() {
		if m.ID == w.self.ID || m.Name != w.self.Name || m.State != StateAlive {
			continue
		}
		if err := w.contend(m); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) settle(now time.Time) {
	alone := true
	for _, m := range *w.c.members.Load() {
		alone = alone && (m.ID == w.self.ID || m.State != StateAlive)
	}
	switch {
	case alone:
		w.company = time.Time{}
	case w.company.IsZero():
		w.company = now
	case now.Sub(w.company) >= settleTime:
		w.settled = true
	}
}

// contend returns an error when rival was here first and lives. A machine that was killed a moment ago, perhaps this
// very one, stands in the table for some seconds more: so it is asked.
func (w *watch) contend(rival Member) error {
	if !w.settled && w.later(rival) {
		if !w.answers(rival) {
			if rival.ID == w.self.ID {
				w.announce()
			}
			return nil
		}
		if rival.ID == w.self.ID {
			return fmt.Errorf("joining the mesh: %w: the machine at %s, called %s, has this node's id %s too; "+
				"was its state folder copied? Remove node.state_dir on one of them", ErrIDTaken, rival.Addr, rival.Name, rival.ID)
		}
		return fmt.Errorf("joining the mesh: %w: %s is the machine at %s (id %s); "+
			"give this one another node.name, or stop that one", ErrNameTaken, rival.Name, rival.Addr, rival.ID)
	}
	w.c.warn(w.c.rivalry(rival))
	return nil
}

// later reports whether this node started after rival.
func (w *watch) later(rival Member) bool {
	if !rival.Since.Equal(w.self.Since) {
		return rival.Since.Before(w.self.Since)
	}
	if rival.ID != w.self.ID {
		return rival.ID < w.self.ID
	}
	return rival.Addr.Compare(w.self.Addr) < 0
}

// answers asks the machine itself. Only one with this very id does.
func (w *watch) answers(m Member) bool {
	_, err := w.lib.Memberlist().Ping(m.ID, net.UDPAddrFromAddrPort(m.Addr))
	return err == nil
}

// announce says again where this node is. The others believe it as soon as they know that its old address is dead;
// without it they would hear of the new one when states are compared, up to a minute later.
func (w *watch) announce() {
	if err := w.lib.Memberlist().UpdateNode(lookInterval); err != nil {
		w.c.log.Debug("announcing our address", "error", err)
	}
}
