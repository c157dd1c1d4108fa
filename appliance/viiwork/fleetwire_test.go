package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// formerWire builds this program as one that speaks the previous version between nodes and no other.
func formerWire(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs("../mesh/report.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	now := fmt.Appendf(nil, "Wire       = %d\n", mesh.Wire)
	if !bytes.Contains(text, now) {
		t.Fatalf("%s does not say %q", source, now)
	}
	former := filepath.Join(dir, "report.go")
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{source: former}})
	for _, err := range []error{
		os.WriteFile(former, bytes.Replace(text, now, fmt.Appendf(nil, "Wire       = %d\n", mesh.Wire-1), 1), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return quick(t, "-overlay", filepath.Join(dir, "overlay.json"))("v1.0.0")
}

// TestAFleetGoesToTheNextWire: nodes that speak the previous version between nodes are led to this one by one of them, under
// load. While the first speaks the new one and the others do not, each passes requests on to the other.
func TestAFleetGoesToTheNextWire(t *testing.T) {
	if testing.Short() {
		t.Skip("builds this program anew, and takes a minute")
	}
	fl := newFleet(t, fleetOf{machines: 3, hosts: 2, program: formerWire(t), watch: 3 * time.Second}, func(s *shop) {
		s.publish(t, "v1.0.1", quick(t)("v1.0.1"))
	})
	traffic := fl.begin(2*time.Second, 0)
	var mixed sync.WaitGroup
	mixed.Go(func() { fl.mixed(t) })
	r, code, said := fl.lead(fl.all[2])
	mixed.Wait()
	traffic.end(t)
	if code != 0 || r.Stage != "ended" || fmt.Sprint(fl.versions()) != "[v1.0.1 v1.0.1 v1.0.1]" {
		t.Errorf("exit %d, %+v, %v run:\n%s", code, r, fl.versions(), said)
	}
	for _, m := range fl.all {
		t.Logf("%s: drain %.2f s, swap %.2f s", m.name, m.trial().Drain, m.trial().Swap)
	}
}

// mixed looks at the fleet while the first speaks the new wire and the others do not: once the first has fetched the version, the
// next one waits for it until all is seen, however long that takes.
func (fl *fleet) mixed(t *testing.T) {
	first, second, third := fl.all[0], fl.all[1], fl.all[2]
	wait := func(what string, so func() bool) bool {
		for limit := time.Now().Add(time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Errorf("waited a minute for %s", what)
				return false
			}
		}
		return true
	}
	if !wait("the first to have the version", func() bool {
		has, _ := os.Readlink(filepath.Join(first.prefix, "versions", "current"))
		return has == "v1.0.1"
	}) {
		return
	}
	fl.from.shut.Lock()
	defer fl.from.shut.Unlock()
	if !wait("the first to be updated and all to see it", func() bool { // each of them: the others hear of it a moment later
		return first.runs() == "v1.0.1" && first.sees() == 2 && second.sees() == 2 && third.sees() == 2
	}) {
		return
	}
	for _, c := range []struct{ by, at *mate }{{first, second}, {second, first}, {third, first}} {
		if err := c.by.passes(c.at); err != nil {
			t.Errorf("from %s to %s: %v", c.by.name, c.at.name, err)
		}
	}
	if fmt.Sprint(fl.versions()) != "[v1.0.1 v1.0.0 v1.0.0]" {
		t.Errorf("%v run: that was asked too late", fl.versions())
	}
}

// passes asks one machine for what another is to answer.
func (m *mate) passes(to *mate) error {
	resp, err := http.Post(m.url+"/v1/chat/completions?host="+to.name, "application/json", strings.NewReader(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if node := resp.Header.Get("X-Viiwork-Node"); resp.StatusCode != http.StatusOK || node != to.name {
		body, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s by %q: %s", resp.Status, node, body)
	}
	return nil
}
