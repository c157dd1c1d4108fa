package serf

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxRemembered is more than the library lets its file grow to.
const maxRemembered = 16 << 20

func rememberedFile(stateDir string) string { return filepath.Join(stateDir, "serf", "members") }

// Remembered lists the addresses that Run asks first: of those who were alive when a node with this state folder last ran.
// A network that reaches members only must be told of them before. What cannot be read is nobody.
func Remembered(stateDir string) []netip.Addr {
	f, err := os.OpenFile(rememberedFile(stateDir), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if err != nil {
		return nil
	}
	defer f.Close()
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil
	}
	alive := map[string]netip.Addr{} // by id
	for lines := bufio.NewScanner(io.LimitReader(f, maxRemembered)); lines.Scan(); {
		if id, gone := strings.CutPrefix(lines.Text(), "not-alive: "); gone {
			delete(alive, id)
			continue
		}
		member, lives := strings.CutPrefix(lines.Text(), "alive: ")
		id, at, _ := strings.Cut(member, " ")
		if addr, err := netip.ParseAddrPort(at); lives && err == nil {
			alive[id] = addr.Addr()
		}
	}
	var addrs []netip.Addr
	for _, addr := range alive {
		addrs = append(addrs, addr)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}
