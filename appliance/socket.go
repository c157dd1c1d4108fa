package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// socketPathMax keeps clear of the limit of a unix socket's address (108 bytes on Linux, 104 on macOS).
const socketPathMax = 100

// SocketPath is where the node of stateDir answers the commands of this machine: viiwork.sock in stateDir or, where that
// path would be too long for a socket, a name made from its digest under the runtime folder. The folder does not depend
// on the environment: a service and its owner's shell must find the same one.
func SocketPath(stateDir string) string {
	path := filepath.Join(stateDir, "viiwork.sock")
	if len(path) <= socketPathMax {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	dir := fmt.Sprintf("/tmp/viiwork-%d", os.Getuid())
	if os.Getuid() == 0 {
		dir = "/var/run/viiwork"
	}
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock")
}

// listenSocket opens the socket, readable to this user alone. A socket left by a killed node is replaced: the state
// directory's lock has already proven that nobody serves it.
func (a *Appliance) listenSocket(stateDir string) (*server, error) {
	path := SocketPath(stateDir)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a place for the socket: %w", err)
	}
	if dir != filepath.Clean(stateDir) {
		if err := ownPrivate(dir); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("closing %s to others: %w", path, err)
	}
	s := a.server(l)
	s.socket = path
	s.context = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, socketKey{}, true)
	}
	return s, nil
}

// ownPrivate refuses a shared folder: whoever owns the folder could put their own socket in our place.
func ownPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUs(info) {
		return fmt.Errorf("%s must be a folder of this user alone (chmod 700 %s), or choose a shorter node.state_dir", dir, dir)
	}
	return nil
}

type socketKey struct{}

// fromSocket reports whether r came over the node's own socket: from a program of this user on this machine.
func fromSocket(r *http.Request) bool { return r.Context().Value(socketKey{}) != nil }
