package main_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

// TestTheServiceUnderSystemd: what the unit says is what systemd does. The wizard starts the service, which tells that it
// is ready and feeds the watchdog; a node that is started anew, killed or hung is back with the same engines; and nothing
// of it stays after uninstall.
func TestTheServiceUnderSystemd(t *testing.T) {
	engine := realEngine()
	if engine == "" {
		t.Skip("no llama-server: set VIIWORK_TEST_ENGINE or put one on PATH")
	}
	files := t.TempDir()
	if err := enginetest.WriteGGUF(filepath.Join(files, "tiny-Q8_0.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	answers := "node: {name: attic}\nmodels_dir: /srv/models\nmodels: [{file: tiny-Q8_0.gguf, name: tiny}]\n" +
		"engine: {runner: native, binary: /srv/engine/llama-server}\nmesh: {start: secured, network: lan, mdns: no}\n"
	if err := os.WriteFile(filepath.Join(files, "answers.yaml"), []byte(answers), 0o644); err != nil {
		t.Fatal(err)
	}
	m := boot(t, "-v", itself(t)+":/usr/local/bin/viiwork:ro", "-v", files+":/srv/models:ro", "-v", filepath.Dir(engine)+":/srv/engine:ro")

	// A machine under load may be too slow for the crowd that it is tried with.
	if out, err := m.try("viiwork", "init", "--answers", "/srv/models/answers.yaml", "--yes"); err != nil && !strings.Contains(out, "PASS  content:tiny") {
		t.Fatalf("init: %v\n%s", err, out)
	}
	m.run("systemctl", "is-enabled", "viiwork")
	m.run("viiwork", "doctor")
	if said, err := m.try("viiwork", "update", "--yes"); err == nil || !strings.Contains(said, "run '"+serviceProgram+" update'") {
		t.Errorf("the program that set the machine up says of updates: %v: %s", err, said)
	}
	_, engines := m.is()
	node := m.show("MainPID")
	again := func(how string) {
		t.Helper()
		before := node
		m.await("another process after "+how, func() bool {
			node = m.show("MainPID")
			return node != before && node != "0"
		})
		if _, now := m.is(); !maps.Equal(now, engines) || engines["tiny"] == "" {
			t.Errorf("%s: the engines were %v and are %v", how, engines, now)
		}
	}
	m.run("systemctl", "restart", "viiwork")
	again("restart")
	m.run("systemctl", "kill", "--kill-who=main", "-s", "KILL", "viiwork")
	again("kill -9")

	m.run("mkdir", "-p", "/etc/systemd/system/viiwork.service.d")
	m.run("sh", "-c", "printf '[Service]\\nWatchdogSec=6\\n' > /etc/systemd/system/viiwork.service.d/override.conf")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "restart", "viiwork")
	again("restart with an edit")
	time.Sleep(15 * time.Second) // the watchdog's patience, twice over
	if now := m.show("MainPID"); now != node {
		t.Errorf("a healthy node was taken for dead: %s is %s", node, now)
	}
	m.run("kill", "-STOP", node)
	again("a hung node")
	if result := m.journal("all"); !strings.Contains(result, "Watchdog timeout") {
		t.Errorf("it was not the watchdog:\n%s", result)
	}
	m.run("systemctl", "reload", "viiwork")

	m.run("rm", "-r", "/etc/systemd/system/viiwork.service.d")
	m.run("viiwork", "uninstall", "--yes")
	if stays, err := m.try("systemctl", "cat", "viiwork"); err == nil {
		t.Errorf("the unit stays:\n%s", stays)
	}
	if stays, _ := m.try("pgrep", "-fa", "llama-server"); stays != "" {
		t.Errorf("engines run on: %s", stays)
	}
	if stays, _ := m.try("sh", "-c", "find /etc/viiwork /var/lib/viiwork /opt/viiwork /run/viiwork 2>/dev/null"); stays != "/etc/viiwork\n/etc/viiwork/viiwork.yaml" {
		t.Errorf("uninstall leaves:\n%s", stays)
	}
}
