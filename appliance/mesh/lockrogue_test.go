package mesh_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// TestWhoSpeaksOfMembersThatNobodyMetIsNamed: they count, as they may be there, but whoever reads why nobody leads learns whose
// word that is.
func TestWhoSpeaksOfMembersThatNobodyMetIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := buildHall(t, 3)
		var ghosts []string
		for i := range 100 {
			ghosts = append(ghosts, fmt.Sprintf(`"ghost%02d"`, i))
		}
		h.nodes[2].keep(`{"term":0,"note":{"term":0,"number":0},"known":[` + strings.Join(ghosts, ",") + `]}`)
		h.begin()
		defer h.end()
		_, _, err := h.nodes[0].lock.Take(t.Context())
		if !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "3 of 103 go along") || !strings.Contains(err.Error(), "node3 speaks of 100") {
			t.Errorf("it says %v", err)
		}
		h.part(h.nodes[0])
		if _, _, err := h.nodes[0].lock.Take(t.Context()); err == nil || strings.Contains(err.Error(), "speaks of") {
			t.Errorf("where nobody's word is the reason it says %v", err)
		}
		h.part()
		time.Sleep(25 * time.Hour) // of members that were there once, this one has not heard for a day
		held, _ := take(t, h.nodes[0])
		held.Free(t.Context())
	})
}

// TestWhoTakesVoicesAndNeverLeadsIsNamed: nothing shows of it elsewhere.
func TestWhoTakesVoicesAndNeverLeadsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		for _, to := range h.nodes[:2] {
			h.nodes[2].say(to, `{"step":"try","term":1,"token":"a","name":"node3"}`)
		}
		_, _, err := h.nodes[0].lock.Take(t.Context())
		if err == nil || !strings.Contains(err.Error(), "at the same moment") || !strings.Contains(err.Error(), "node3") {
			t.Errorf("it says %v", err)
		}
	})
}
