package tsnode

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tailscale.com/tsnet"
)

// portFile holds the UDP port that the device had last.
const portFile = "udp-port"

// lastPort is the port to have again. Other devices go on sending to where this one was until the control server tells
// them better: on another port the answer to its first word after a start is lost, and the next try comes after five
// seconds. 0 = any; one that is taken meanwhile is as good as that.
func lastPort(dir string) uint16 {
	text, err := readPlain(filepath.Join(dir, portFile))
	if err != nil || len(text) > 8 {
		return 0
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil || port < 1024 {
		return 0
	}
	return uint16(port)
}

// keepPort notes the port that a started device has. Without the note it only comes back a little later.
func keepPort(dir string, server *tsnet.Server) {
	sock, ok := server.Sys().MagicSock.GetOK()
	if !ok {
		return
	}
	if port := sock.LocalPort(); port != lastPort(dir) {
		_ = os.WriteFile(filepath.Join(dir, portFile), []byte(strconv.Itoa(int(port))+"\n"), 0o600)
	}
}
