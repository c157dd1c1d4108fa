package main_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/engine/enginetest"
)

// updates has the owner of the machine update it under load. Nobody may be failed, and the engine goes on.
func (m machine) updates(want string, args ...string) {
	m.t.Helper()
	_, engines := m.is()
	l := load{url: m.url()}
	l.begin(8, 8)
	time.Sleep(2 * time.Second)
	var v verdict
	if err := json.Unmarshal([]byte(m.run(append([]string{serviceProgram, "update", "--yes", "--json", "--watch", "3s"}, args...)...)), &v); err != nil {
		m.t.Fatal(err)
	}
	l.end()
	l.tell(m.t)
	m.t.Logf("%s: drain %.2f s, swap %.2f s", want, v.Drain, v.Swap)
	version, after := m.is()
	if v.State != "good" || version != want || !maps.Equal(after, engines) || engines["m"] == "" {
		m.t.Errorf("%+v: %s runs, engines were %v, are %v", v, version, engines, after)
	}
}

// furnishMachine writes below root what a setup leaves on a machine whose node is program, and a release in a folder.
func furnishMachine(t *testing.T, root string, from *shop) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "viiwork")
	engine, err := os.ReadFile(enginetest.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	engine = []byte(strings.ReplaceAll(string(engine), itself(t), "/srv/engine"))
	cfg := config.Default()
	cfg.Node.Name, cfg.ModelsDir, cfg.Mesh.Network, cfg.Mesh.Open, cfg.Mesh.LAN.MDNS = "n", "/srv/models", "lan", true, false
	cfg.Models = []config.Model{{Name: "m", Path: "/srv/models/tiny.gguf", Context: 2048, Parallel: 32, Args: []string{"--fake-decode-tps", "20"},
		Llamacpp: config.Llamacpp{Runner: "native", Binary: "/srv/llama-server", PromptCache: 64 << 20}}}
	write := func(path string, text []byte, mode fs.FileMode) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
	}
	old := release(t, "v1.0.0")
	if err := os.WriteFile(program, old, 0o755); err != nil {
		t.Fatal(err)
	}
	write("srv/engine", old, 0o755)
	write("srv/llama-server", engine, 0o755)
	write("srv/trusted_root.json", from.signs.Root(), 0o644)
	write("srv/models/.keep", nil, 0o644)
	if err := enginetest.WriteGGUF(filepath.Join(root, "srv/models/tiny.gguf"), enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	files, _ := setup.Files(setup.Machine{Root: root, Manager: setup.Systemd, Program: program, Version: "v1.0.0"}, setup.Answers{Config: cfg})
	for _, f := range files {
		switch {
		case f.IsDir():
			err = os.MkdirAll(filepath.Join(root, f.Path), f.Mode.Perm())
		case f.Link != "":
			err = os.Symlink(f.Link, filepath.Join(root, f.Path))
		case f.From != "":
			write(f.Path, old, f.Mode)
		default:
			write(f.Path, f.Content, f.Mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheUnitUnderSystemd: the service of a setup is started by systemd, restarted, updated and taken back under load, and
// comes back when it is killed; its engine is the same process all along.
func TestTheUnitUnderSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	m := boot(t) // where there is no machine, all the rest would be for nothing
	root := t.TempDir()
	from := openShop(t)
	furnishMachine(t, root, from)
	from.layOut(t, filepath.Join(root, "srv/releases"), "v1.0.1", release(t, "v1.0.1"))
	m.lay(root)
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "enable", "--now", "viiwork.service")
	_, engines := m.is()

	l := load{url: m.url()}
	l.begin(8, 8)
	time.Sleep(2 * time.Second)
	m.run("systemctl", "restart", "viiwork.service")
	time.Sleep(time.Second)
	l.end()
	l.tell(t)
	took, _ := m.try("sh", "-c", "journalctl -o cat -u viiwork | grep 'took over' | tail -1")
	t.Logf("systemctl restart: %s", took)
	m.updates("v1.0.1", "--source", "/srv/releases", "--trust-root", "/srv/trusted_root.json")
	m.updates("v1.0.0", "--rollback")

	m.run("sh", "-c", "kill -9 $(systemctl show -P MainPID viiwork)")
	if version, after := m.is(); version != "v1.0.0" || !maps.Equal(after, engines) {
		t.Errorf("after kill -9 %s runs, engines were %v, are %v", version, engines, after)
	}
	m.run("systemctl", "stop", "viiwork.service")
	if resp, err := http.Get(l.url + "/healthz"); err == nil {
		resp.Body.Close()
		t.Errorf("stopped, it answers %s", resp.Status)
	}
}
