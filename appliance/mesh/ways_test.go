package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// TestWaysFollowWhatIsMeasured, whatever single asks say, and of no more members than there can be.
func TestWaysFollowWhatIsMeasured(t *testing.T) {
	c := mesh.NewClient(mesh.ClientConfig{})
	if c.RTT("a") != 0 {
		t.Error("a way that nobody went is known")
	}
	mesh.Took(c, "a", 20*time.Millisecond)
	for range 3 {
		mesh.Took(c, "a", time.Hour) // a machine that stood still
	}
	if d := c.RTT("a"); d < 20*time.Millisecond || d > 100*time.Millisecond {
		t.Errorf("after outliers it takes %v", d)
	}
	for range 60 {
		mesh.Took(c, "a", 5*time.Millisecond)
	}
	if d := c.RTT("a"); d < 4900*time.Microsecond || d > 5100*time.Microsecond {
		t.Errorf("it takes %v, want 5ms", d)
	}
	mesh.Took(c, "b", -time.Second)
	mesh.Took(c, "c", time.Hour)
	if c.RTT("b") != 0 || c.RTT("c") != 10*time.Second {
		t.Errorf("%v and %v", c.RTT("b"), c.RTT("c"))
	}
	for i := range 3000 {
		mesh.Took(c, fmt.Sprint("m", i), time.Second)
	}
	known := 0
	for i := range 3000 {
		if c.RTT(fmt.Sprint("m", i)) > 0 {
			known++
		}
	}
	if known > 1024 {
		t.Errorf("the ways to %d members are kept", known)
	}
}
