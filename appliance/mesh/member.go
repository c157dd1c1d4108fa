package mesh

import (
	"errors"
	"net/netip"
)

// Member is another node of the mesh, as gossip knows it.
type Member struct {
	ID      string // stable for the life of its state directory
	Name    string // the owner's
	Addr    string // of its API: ip:port. Never a name: names are compared, not dialled
	Version string
}

var errMember = errors.New("the member's id, name or address is none: its tags are broken or not viiwork's")

// check holds what a stranger put into its tags against the bounds.
func (m Member) check() error {
	addr, err := netip.ParseAddrPort(m.Addr)
	if err != nil || addr.Port() == 0 || addr.Addr().IsUnspecified() || addr.Addr().IsMulticast() ||
		!isID(m.ID) || m.Name == "" || !isText(m.Name) || !isText(m.Version) {
		return errMember
	}
	return nil
}
