package appliance_test

import (
	"encoding/json"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/update/rollout"
)

// TestANoteIsReadOnce, however often it is asked for, and the next one anew, also one that makes no sense.
func TestANoteIsReadOnce(t *testing.T) {
	note := func(version string) []byte {
		roll, err := rollout.Begin(rollout.Order{ID: "0123456789abcdef", Version: version, Lead: "a", LeadName: "attic", Now: time.Now()},
			[]rollout.Sight{{ID: "a", Name: "attic", Version: "v1.0.0", Online: true}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(roll)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var r appliance.Reading
	first := note("v1.1.0")
	a, b := r.Of(first), r.Of(first)
	if a.Version != "v1.1.0" || len(a.Members) != 1 || &a.Members[0] != &b.Members[0] {
		t.Errorf("read %+v, then %+v", a, b)
	}
	for _, c := range []struct{ note, version string }{{string(note("v1.2.0")), "v1.2.0"}, {"{", ""}, {string(first), "v1.1.0"}, {"", ""}} {
		if got := r.Of([]byte(c.note)); got.Version != c.version {
			t.Errorf("read %+v, want %s", got, c.version)
		}
	}
}
