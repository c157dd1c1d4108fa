package mesh_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestUnreachableMemberStopsIt before anything is used, and is named.
func TestUnreachableMemberStopsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		defer c.end()
		c.lose = func(to *holder) (in, out bool) { return to == c.nodes[2], false }
		_, err := c.nodes[0].rotation.Rotate(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "node3: it cannot be reached") || strings.Contains(err.Error(), "node2") {
			t.Errorf("from the beginning: %v", err)
		}
		c.tame()
		asked := make(chan struct{})
		heard := sync.OnceFunc(func() { close(asked) })
		c.lose = func(to *holder) (in, out bool) {
			select {
			case <-asked:
				return to == c.nodes[2], false
			default:
				return false, false
			}
		}
		c.after = func(at *holder, _ string) {
			if at == c.nodes[2] {
				heard()
			}
		}
		_, err = c.nodes[0].rotation.Rotate(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "nothing is replaced, all keep the old secret: node3") {
			t.Errorf("in the middle: %v", err)
		}
		for _, h := range c.nodes {
			if _, at, _ := h.rotation.SecretState(); at != "done" {
				t.Errorf("%s did not go back: %s", h.Name, c.story())
			}
			if !h.keys.SignsWith(secret) {
				t.Errorf("%s uses another secret", h.Name)
			}
		}
		c.tame()
		if out, err := c.nodes[1].rotation.Rotate(t.Context(), nil); err != nil || len(out.Members) != 4 {
			t.Errorf("when it is back: %+v, %v", out, err)
		}
	})
}

// TestMembersThatSeeOthersStopIt: one that this node does not see would be left behind.
func TestMembersThatSeeOthersStopIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		defer c.end()
		c.nodes[0].blind = c.nodes[2].ID
		_, err := c.nodes[0].rotation.Rotate(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "node2: it does not see the same living members") {
			t.Errorf("got %v", err)
		}
		c.nodes[0].blind = ""
		if out, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err != nil || len(out.Members) != 3 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
