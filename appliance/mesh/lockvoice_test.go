package mesh_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// TestAVoiceIsNoHold: who was given a voice is not obeyed before a majority gave theirs, and what comes late changes nothing.
func TestAVoiceIsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 3)
		defer h.end()
		asks, rival, to := h.nodes[0], h.nodes[2], h.nodes[1]
		for _, c := range []struct {
			what string
			from *keyholder
			body string
			want string // of the answer
			held bool   // n01 is obeyed after it
		}{
			{"a try", asks, `{"step":"try","term":4,"token":"a","name":"node1"}`, `"ok":true`, false},
			{"a rival's", rival, `{"step":"try","term":9,"token":"r","name":"node3"}`, `"why":"held"`, false},
			{"a rival's note", rival, `{"step":"note","term":9,"token":"r","name":"node3","note":{"term":9,"number":1}}`, `"why":"held"`, false},
			{"the hold", asks, `{"step":"note","term":4,"token":"a","name":"node1","note":{"term":4,"number":1,"text":"eA=="}}`, `"ok":true`, true},
			{"the next note", asks, `{"step":"note","term":4,"token":"a","name":"node1","note":{"term":4,"number":2,"text":"eQ=="}}`, `"ok":true`, true},
			{"a note of a run before", asks, `{"step":"note","term":4,"token":"b","name":"node1","note":{"term":4,"number":9,"text":"eg=="}}`, `"why":"older"`, true},
			{"it counts on", asks, `{"step":"note","term":6,"token":"a","name":"node1","note":{"term":6,"number":1,"text":"eQ=="}}`, `"ok":true`, true},
			{"from before it did, late", asks, `{"step":"note","term":4,"token":"a","name":"node1","note":{"term":4,"number":9,"text":"eg=="}}`, `"why":"older"`, true},
			{"the first one, late", asks, `{"step":"note","term":4,"token":"a","name":"node1","note":{"term":4,"number":1,"text":"eA=="}}`, `"why":"older"`, true},
			{"the try, late", asks, `{"step":"try","term":4,"token":"a","name":"node1"}`, `"why":"older"`, true},
			{"a run before", asks, `{"step":"try","term":4,"token":"b","name":"node1"}`, `"why":"older"`, true},
			{"the end of a run before", asks, `{"step":"free","token":"b"}`, `"why":"other"`, true},
			{"a rival's end of it", rival, `{"step":"free","token":"a"}`, `"why":"other"`, true},
			{"the end", asks, `{"step":"free","token":"a"}`, `"ok":true`, false},
			{"the hold, late", asks, `{"step":"note","term":4,"token":"a","name":"node1","note":{"term":4,"number":2,"text":"eQ=="}}`, `"why":"older"`, false},
			{"a rival's old try", rival, `{"step":"try","term":4,"token":"r","name":"node3"}`, `"why":"older"`, false},
			{"a rival's new one, with a note", rival, `{"step":"try","term":7,"token":"r","name":"node3","note":{"term":7,"number":1,"text":"eg=="}}`, `"ok":true`, false},
		} {
			if status, text := c.from.say(to, c.body); status != http.StatusOK || !strings.Contains(text, c.want) {
				t.Errorf("%s: %d %s, want %s", c.what, status, text, c.want)
			}
			if to.lock.Obeys("n01", "a") != c.held {
				t.Errorf("%s: obeyed %v", c.what, !c.held)
			}
		}
		if v := to.lock.View(); string(v.Note) != "y" || v.Owner != "" {
			t.Errorf("it remembers %q of %s", v.Note, v.Owner)
		}
	})
}

// TestVoicesOfThoseWhoAreGoneCountForAWhile: two machines of three that are switched off are no reason to wait for ever, and one
// that just sees nobody is no majority of itself.
func TestVoicesOfThoseWhoAreGoneCountForAWhile(t *testing.T) {
	for as, within := range map[string]time.Duration{"left": time.Hour, "failed": 24 * time.Hour, "unseen": 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t, 3)
			defer h.end()
			time.Sleep(time.Minute)
			h.nodes[1].kill(as)
			h.nodes[2].kill(as)
			time.Sleep(within - 2*time.Minute)
			if _, _, err := h.nodes[0].lock.Take(t.Context()); !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "1 of 3") {
				t.Errorf("%s, too early: %v", as, err)
			}
			time.Sleep(4 * time.Minute)
			held, _ := take(t, h.nodes[0])
			held.Free(t.Context())
		})
	}
}
