//go:build linux

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"viiwork/tsnode/localcontrol"
)

// TestControlServerGone: three devices of a tailnet go on answering for each other once its control server is gone.
func TestControlServerGone(t *testing.T) {
	if !full() {
		t.Skip("part of the full form: make faults")
	}
	control, err := localcontrol.Start(localcontrol.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	var all []*machine
	for i, slots := range []int{2, 2, 0} {
		local := fmt.Sprintf("127.0.0.1:%d", freePort(t, "127.0.0.1"))
		m := &machine{
			name: fmt.Sprintf("t%d", i), dir: t.TempDir(), slots: slots, url: "http://" + local,
			access: fmt.Sprintf("api: {local: %q}\nmesh: {secret_env: %s, tailnet: {control_url: %q}}\n", local, secretEnv, control.URL()),
			books:  fmt.Sprintf("127.0.0.1:%d", freePort(t, "127.0.0.1")),
		}
		all = append(all, m)
		m.start(t)
	}
	begun := time.Now()
	t.Logf("three devices know each other after %s", seconds(until(t, "the mesh is whole", begun, func() bool { return isWhole(all) })))
	l := newLoad(all, "control", 6, 16)
	time.Sleep(3 * time.Second)
	control.Close()
	time.Sleep(20 * time.Second)
	whole := isWhole(all)
	v := judge(l.stop(), books(t, all, "control"), nowhere)
	t.Logf("the control server is gone for 20 s: %s", v)
	if !whole {
		t.Error("the mesh is no longer whole")
	}
	if v.lost+v.doubled+v.broken+v.stray > 0 {
		t.Errorf("requests were lost, doubled or broken: %q", v.examples)
	}
}
