package serf

import (
	"net/netip"
	"time"

	hserf "github.com/hashicorp/serf/serf"
)

// TagSize is the size of cfg's tags by our own count, when it is started now.
func TagSize(cfg Config) int { return cfg.tags(time.Now()).size() }

// MetaSize is the size of the tags that the library sends.
func MetaSize(c *Cluster) int { return len(c.lib.Memberlist().LocalNode().Meta) }

// ReadMember is what becomes of a member as the library has it.
func ReadMember(id string, ip []byte, port uint16, tags map[string]string) (Member, error) {
	return read(hserf.Member{Name: id, Addr: ip, Port: port, Tags: tags, Status: hserf.StatusAlive})
}

// ReadLog gives a running Cluster a line of the library's log.
func ReadLog(c *Cluster, line string) { (&logWriter{c: c}).Write([]byte(line)) }

// StrangerIn reads a line of the library's log.
func StrangerIn(line string) (string, netip.Addr) { return strangerIn(line) }
