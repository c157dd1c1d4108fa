package appliance_test

import (
	"fmt"
	"testing"

	"viiwork/engine/enginetest"
	"viiwork/tsnode/headscaletest"
)

// TestHeadscaleMesh: two nodes that join a real Headscale by key find each other by its tag, and a model of one answers
// through the other.
func TestHeadscaleMesh(t *testing.T) {
	control := headscaletest.Start(t)
	t.Setenv("TS_AUTHKEY", control.AuthKey(t))
	secret, _ := secrets(t)
	engine := fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 200})
	all := []*fellow{}
	for name, models := range map[string][]string{"a": {served("m", engine.URL(), 4)}, "b": nil} {
		f := &fellow{name: name, dir: t.TempDir(), control: control.URL(), secret: secret, models: models,
			local: fmt.Sprintf("127.0.0.1:%d", portAt("127.0.0.1"))}
		f.here(t)
		all = append(all, f)
	}
	for _, f := range all {
		t.Logf("%s sees the model after %s", f.name, holds(t, "the model is seen", func() bool { return f.sees("m") == 1 }))
	}
	for _, f := range all {
		for _, stream := range []bool{true, false} {
			got := f.chat("", question("m", "hello", 20, stream))
			if !got.complete(stream) || got.header.Get("X-Viiwork-Node") != "a" || got.header.Get("X-Viiwork-Origin") != f.name {
				t.Errorf("through %s, stream %v: %d %v, headers %v: %.300s", f.name, stream, got.status, got.err, got.header, got.body)
			}
		}
		if w := f.warning("tailnet-refused", "tailnet-name", "tailnet-control"); w != nil {
			t.Errorf("%s warns: %+v", f.name, w)
		}
	}
}
