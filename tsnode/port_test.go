package tsnode_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// portOf is the UDP port that the device of a node has, or had.
func portOf(t *testing.T, cfg tsnode.Config) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cfg.StateDir, "tsnode", "udp-port"))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// taken tells whether somebody has a UDP port.
func taken(port int) bool {
	l, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		return true
	}
	l.Close()
	return false
}

// awaitFree waits until the device that was at a port has let go of it: a slow end is not waited for by who ends it.
func awaitFree(t *testing.T, port int) {
	t.Helper()
	await(t, "the port to be free", func() bool { return !taken(port) })
}

// TestADeviceComesBackWhereItWas: others go on sending there, and what they answer it would be lost elsewhere.
func TestADeviceComesBackWhereItWas(t *testing.T) {
	c := startControl(t, localcontrol.Config{})
	cfg := device(t, c, "a")
	first := up(t, cfg)
	port := portOf(t, cfg)
	if !taken(port) {
		t.Fatalf("port %d is not the device's", port)
	}
	first.stop()
	awaitFree(t, port)
	again := up(t, cfg)
	if now := portOf(t, cfg); now != port || !taken(port) {
		t.Errorf("it was at port %d and is at %d", port, now)
	}
	again.stop()
	awaitFree(t, port)
	l, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	other := up(t, cfg) // somebody else has it
	if now := portOf(t, cfg); now == port || !taken(now) {
		t.Errorf("it notes port %d, and %d was taken", now, port)
	}
	other.stop()
	l.Close()
	for _, text := range []string{"", "22", "70000", "-1", "x", strings.Repeat("9", 1<<10)} {
		if err := os.WriteFile(filepath.Join(cfg.StateDir, "tsnode", "udp-port"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		up(t, cfg).stop()
		if now := portOf(t, cfg); now < 1024 {
			t.Errorf("after %q it is at port %d", text, now)
		}
	}
}
