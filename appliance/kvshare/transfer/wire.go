package transfer

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"

	"viiwork/appliance/kvshare/replica"
)

// Where a node is asked: for a manifest, by a link of the conversation; for chunks, by their sums; and for its direct path,
// by who will come there.
const (
	ManifestPath = "/v1/kv/manifest"
	ChunksPath   = "/v1/kv/chunks"
	DirectPath   = "/v1/kv/direct"
)

const (
	linkDigits = 32 // of a link, in hexadecimal
	sumBytes   = len(replica.Sum{})
	leftBytes  = 8
	// maxAsked is how many chunks are asked for at one time.
	maxAsked = 4096
	maxAsk   = leftBytes + maxAsked*sumBytes
	// headBytes precede each chunk: its length. None means that the chunk is not there any more.
	headBytes = 4

	maxAddrs = 8
	maxOffer = 1 << 10 // bytes of an offer
)

// ask is a question for chunks: how many bytes the asker wants from now on, and which chunks he wants now.
type ask struct {
	left int64
	sums []byte // one after the other
}

func (a ask) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(a.left))
	return append(b, a.sums...)
}

func readAsk(b []byte) (ask, bool) {
	if len(b) <= leftBytes || len(b) > maxAsk || (len(b)-leftBytes)%sumBytes != 0 {
		return ask{}, false
	}
	left := min(binary.BigEndian.Uint64(b), replica.MaxSize)
	return ask{int64(left), b[leftBytes:]}, true
}

// offer is where a node's direct path begins and how to know that one is there. As text it is the fingerprint in hexadecimal
// and the addresses, each on a line.
type offer struct {
	print print
	addrs []netip.AddrPort
}

var errOffer = errors.New("the member offers no addresses that could be its own")

func (o offer) text() []byte {
	b := hex.AppendEncode(nil, o.print[:])
	for _, a := range o.addrs {
		b = append(b, '\n')
		b = a.AppendTo(b)
	}
	return b
}

// readOffer takes no addresses that lead back into this machine, unless local.
func readOffer(b []byte, local bool) (offer, error) {
	var o offer
	lines := strings.Split(string(b), "\n")
	sum, err := hex.DecodeString(lines[0])
	if err != nil || len(sum) != len(o.print) || len(lines) < 2 || len(lines) > 1+maxAddrs {
		return offer{}, errOffer
	}
	o.print = print(sum)
	for _, line := range lines[1:] {
		a, err := netip.ParseAddrPort(line)
		ip := a.Addr()
		if err != nil || a.Port() == 0 || ip.Zone() != "" || !ip.IsGlobalUnicast() && !(local && ip.IsLoopback()) {
			return offer{}, errOffer
		}
		o.addrs = append(o.addrs, a)
	}
	return o, nil
}
