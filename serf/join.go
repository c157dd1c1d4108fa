package serf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Join meets the nodes at these gossip addresses, and by them everyone they know; two halves of a split mesh are one
// again after one such meeting. It returns how many were met and why the others were not. An address that does not
// answer costs up to 10 s, or until ctx ends before the next.
//
// The caller knows whom to meet: who is online by the network's own account and not alive in Members.
func (c *Cluster) Join(ctx context.Context, addrs []netip.AddrPort) (int, error) {
	lib, err := c.library(ctx)
	if err != nil {
		return 0, fmt.Errorf("joining the mesh: %w", err)
	}
	c.joining.Lock()
	defer c.joining.Unlock()
	met := 0
	var faults []error
	for _, addr := range addrs {
		if ctx.Err() != nil {
			return met, errors.Join(append(faults, fmt.Errorf("joining the mesh: %w", context.Cause(ctx)))...)
		}
		if addr == c.own {
			continue
		}
		if !usable(addr) {
			faults = append(faults, fmt.Errorf("joining %s: not an address to gossip with", addr))
			continue
		}
		// Old messages are of no use to who joins now.
		if _, err := lib.Join([]string{addr.String()}, true); err != nil {
			faults = append(faults, c.notMet(addr, err))
			continue
		}
		met++
	}
	return met, errors.Join(faults...)
}

// notMet makes the library's list of one error readable, and a warning of it where the secret is the cause.
func (c *Cluster) notMet(addr netip.AddrPort, err error) error {
	text := err.Error()
	if one := errors.Unwrap(err); one != nil {
		text = one.Error()
	}
	text = strings.TrimPrefix(text, "failed to join "+addr.String()+": ")
	if id := secretFault(text); id != "" {
		w := c.stranger(id, addr.Addr())
		c.warn(w)
		if id == warnSecret {
			return otherSecret{fmt.Errorf("joining %s: %s: %s", addr, w.Text, w.Fix)}
		}
		return fmt.Errorf("joining %s: %s: %s", addr, w.Text, w.Fix)
	}
	return fmt.Errorf("joining %s: %s", addr, text)
}

// otherSecret is ErrOtherSecret in words about one machine.
type otherSecret struct{ error }

func (otherSecret) Is(target error) bool { return target == ErrOtherSecret }
