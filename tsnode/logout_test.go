package tsnode_test

import (
	"os"
	"path/filepath"
	"testing"

	"viiwork/tsnode"
	"viiwork/tsnode/localcontrol"
)

// TestLoggedOutDeviceNeedsANewLogin: the others see it no more, and its state opens nothing.
func TestLoggedOutDeviceNeedsANewLogin(t *testing.T) {
	c := startControl(t, localcontrol.Config{RequireLogin: true})
	cfg := device(t, c, "a")
	if tsnode.HasDevice(cfg.StateDir) {
		t.Fatal("a device before there is one")
	}
	if err := tsnode.Logout(bounded(t), cfg); err != nil {
		t.Errorf("without a device: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Join(cfg.StateDir, "tsnode")); len(entries) > 0 {
		t.Errorf("made %v", entries)
	}
	n := run(t, cfg)
	await(t, "a login address", func() bool { return n.Status().LoginURL != "" })
	c.CompleteLogin(n.Status().LoginURL)
	awaitReady(t, n)
	if err := tsnode.Logout(bounded(t), cfg); err == nil {
		t.Error("logged out under a running node")
	}
	n.stop()
	if !tsnode.HasDevice(cfg.StateDir) {
		t.Fatal("no device afterwards")
	}
	if err := tsnode.Logout(bounded(t), cfg); err != nil {
		t.Fatal(err)
	}
	again := run(t, cfg)
	await(t, "a device that asks for a login", func() bool { return again.Status().State == tsnode.StateNeedsLogin })
}
