package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/status"
)

// streamLength is how long the streams of a fleet under load are: VIIWORK_TEST_STREAM says so, 6 s where it does not.
func streamLength(t *testing.T) time.Duration {
	text := os.Getenv("VIIWORK_TEST_STREAM")
	if text == "" {
		return 6 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAFleetOfATailnetUpdatesItself: three devices go to a new version one after the other while clients ask everywhere, and
// nobody is failed; then one is published that is no good, and only the first takes it, and goes back.
func TestAFleetOfATailnetUpdatesItself(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	program, lasts := quick(t), streamLength(t)
	// What runs when a node is told to end is waited for, and what comes until that is done.
	fl := newFleet(t, fleetOf{machines: 3, hosts: 3, tailnet: true, program: program("v1.0.0"), watch: 3 * time.Second, drain: 10*time.Second + 3*lasts}, func(s *shop) {
		s.publish(t, "v1.0.1", program("v1.0.1"))
	})
	engines := map[string]map[string]string{}
	for _, m := range fl.all {
		engines[m.name] = m.engines()
	}
	traffic := fl.begin(lasts, 18)
	time.Sleep(8 * time.Second) // so that streams are at every point and conversations have begun

	began := time.Now()
	r, code, said := fl.lead(fl.all[2])
	t.Logf("all are updated after %s:\n%s", time.Since(began).Round(time.Second), said)
	if code != 0 || r.Stage != "ended" || fmt.Sprint(fl.versions()) != "[v1.0.1 v1.0.1 v1.0.1]" {
		t.Errorf("exit %d, %+v, %v run", code, r, fl.versions())
	}
	for _, m := range fl.all {
		is := m.trial()
		t.Logf("%s: drain %.2f s, swap %.2f s; its tailnet address did not answer for %.1f s", m.name, is.Drain, is.Swap, m.tail.longest(began).Seconds())
	}

	if _, code, said := fl.lead(fl.all[2], "--to", "v1.0.9"); code != 1 || !strings.Contains(said, "it has no such release") {
		t.Errorf("what nobody has: exit %d, %s", code, said)
	}
	var is status.Cluster
	if fl.all[2].call(http.MethodGet, "/v1/cluster", "", &is); is.Rollout == nil || is.Rollout.Version != "v1.0.1" {
		t.Errorf("what nobody has is rolled out: %+v", is.Rollout)
	}

	fl.from.publish(t, "v1.0.2", badReleases(t)("v1.0.2", "fails"))
	began = time.Now()
	r, code, said = fl.lead(fl.all[2])
	t.Logf("the bad one is back after %s:\n%s", time.Since(began).Round(time.Second), said)
	if code == 0 || r.Stage != "stopped" || fmt.Sprint(fl.versions()) != "[v1.0.1 v1.0.1 v1.0.1]" {
		t.Errorf("exit %d, %+v, %v run", code, r, fl.versions())
	}
	t.Logf("a's tailnet address did not answer for %.1f s", fl.all[0].tail.longest(began).Seconds())
	traffic.end(t)
	for i, m := range fl.all {
		m.tellsWhy("a went back from v1.0.2")
		if starts := m.readied(); i > 0 && starts != 2 {
			t.Errorf("%s was started %d times", m.name, starts)
		}
		if after := m.engines(); !maps.Equal(after, engines[m.name]) || after["m#0"] == "" {
			t.Errorf("%s: engines were %v, are %v", m.name, engines[m.name], after)
		}
	}
}

// tellsWhy wants the node to say why a roll-out has stopped.
func (m *mate) tellsWhy(why string) {
	m.t.Helper()
	m.await(m.name+" to say why it stopped", func() bool {
		var is status.Node
		m.call(http.MethodGet, "/v1/status", "", &is)
		for _, w := range is.Warnings {
			if w.ID == "rollout_stopped" && strings.Contains(w.Text, why) {
				return true
			}
		}
		return false
	})
}
