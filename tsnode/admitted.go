package tsnode

import (
	"net/netip"
	"sync"
)

// maxAdmitted bounds what members can make this node remember.
const maxAdmitted = 1024

// admitted is the set of addresses that members told of. The oldest leaves first.
type admitted struct {
	mu    sync.Mutex // guards all below
	set   map[netip.Addr]bool
	order []netip.Addr
}

func (a *admitted) add(addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set == nil {
		a.set = map[netip.Addr]bool{}
	}
	for _, addr := range addrs {
		addr = addr.Unmap()
		if a.set[addr] || !addr.IsValid() {
			continue
		}
		if len(a.order) == maxAdmitted {
			delete(a.set, a.order[0])
			a.order = a.order[1:]
		}
		a.set[addr] = true
		a.order = append(a.order, addr)
	}
}

func (a *admitted) has(addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set[addr]
}
