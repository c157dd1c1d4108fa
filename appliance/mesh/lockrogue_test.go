package mesh_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// TestOnlyMembersSpeakOfTheLock, with the secret, and as it is done.
func TestOnlyMembersSpeakOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 2)
		defer h.end()
		try := `{"step":"try","term":1,"token":"a","name":"node1"}`
		sent := func(method string, sign func(*http.Request)) int {
			req, err := http.NewRequest(method, "http://"+h.nodes[1].Addr+"/v1/lock", strings.NewReader(try))
			if err != nil {
				t.Fatal(err)
			}
			sign(req)
			status, _ := h.send(req)
			return status
		}
		digest := sha256.Sum256([]byte(try))
		stranger := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: keys(t, mesh.KeyConfig{Secret: []byte(strings.Repeat("anothers", 4))})})
		for what, got := range map[string][2]int{
			"unsigned":                 {sent(http.MethodPost, func(*http.Request) {}), http.StatusForbidden},
			"with another secret":      {sent(http.MethodPost, func(r *http.Request) { stranger.Sign(r, "n02", digest) }), http.StatusForbidden},
			"for another node":         {sent(http.MethodPost, func(r *http.Request) { h.nodes[0].signer.Sign(r, "n03", digest) }), http.StatusForbidden},
			"another than was signed":  {sent(http.MethodPost, func(r *http.Request) { h.nodes[0].signer.Sign(r, "n02", sha256.Sum256([]byte("x"))) }), http.StatusBadRequest},
			"by a method of no use":    {sent(http.MethodPut, func(r *http.Request) { h.nodes[0].signer.Sign(r, "n02", digest) }), http.StatusMethodNotAllowed},
			"as it is done, for a try": {sent(http.MethodPost, func(r *http.Request) { h.nodes[0].signer.Sign(r, "n02", digest) }), http.StatusOK},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %d, want %d", what, got[0], got[1])
			}
		}
	})
}

// TestHostileWordAboutTheLockChangesNothing: a member may be broken or taken over.
func TestHostileWordAboutTheLockChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 2)
		defer h.end()
		for name, body := range map[string]string{
			"no step":             `{}`,
			"another step":        `{"step":"steal","term":1,"token":"a","name":"x"}`,
			"no token":            `{"step":"try","term":1,"name":"x"}`,
			"no term":             `{"step":"try","token":"a","name":"x"}`,
			"a leap":              `{"step":"try","term":1000001,"token":"a","name":"x"}`,
			"the last term":       `{"step":"try","term":18446744073709551615,"token":"a","name":"x"}`,
			"a line feed":         `{"step":"try","term":1,"token":"a","name":"x\ny"}`,
			"a long token":        `{"step":"try","term":1,"token":"` + strings.Repeat("a", 65) + `","name":"x"}`,
			"another term's note": `{"step":"note","term":2,"token":"a","name":"x","note":{"term":1,"number":1}}`,
			"nothing to free":     `{"step":"free","token":""}`,
			"a long note":         fmt.Sprintf(`{"step":"note","term":1,"token":"a","name":"x","note":{"term":1,"number":1,"text":"%s"}}`, strings.Repeat("AAAA", 90_000)),
		} {
			if status, text := h.nodes[0].say(h.nodes[1], body); status != http.StatusOK || !strings.Contains(text, `"ok":false`) || !strings.Contains(text, `"term":0,"note"`) {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
		for name, says := range map[string]struct {
			body   string
			status int
		}{"no JSON": {`{"step"`, http.StatusBadRequest}, "too long": {strings.Repeat(" ", 600<<10), http.StatusRequestEntityTooLarge}} {
			if status, text := h.nodes[0].say(h.nodes[1], says.body); status != says.status {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
		if v := h.nodes[1].lock.View(); v.Owner != "" || v.Note != nil {
			t.Errorf("%+v", v)
		}
	})
}

// TestAnswerThatMakesNoSenseIsNoVoice, though it says yes.
func TestAnswerThatMakesNoSenseIsNoVoice(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"n",`, mesh.MaxMembers+1), ",")
	for name, more := range map[string]string{
		"a term":         `"term":9007199254740993`,
		"a reason":       `"why":"a\nb"`,
		"an id":          `"owner":"a b"`,
		"a name":         `"name":"a\nb"`,
		"less than none": `"left_ms":-1`,
		"for ever":       `"left_ms":120001`,
		"a note's term":  `"note":{"term":9007199254740993,"number":1}`,
		"a note's count": `"note":{"term":0,"number":9007199254740993}`,
		"a member":       `"known":["a b"]`,
		"members":        `"known":[` + many + `]`,
		"no JSON":        `"known":`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := buildHall(t, 3)
				h.nodes[2].says = `{"ok":true,` + more + `}`
				h.begin()
				defer h.end()
				h.nodes[1].kill("failed")
				_, _, err := h.nodes[0].lock.Take(t.Context())
				if !errors.Is(err, mesh.ErrLockMinority) || !strings.Contains(err.Error(), "node3: the answer makes no sense") {
					t.Errorf("it says %v", err)
				}
			})
		})
	}
}

// TestAnswerThatSomebodyForgedOnTheWayIsNoVoice: with two of them there could be two holders.
func TestAnswerThatSomebodyForgedOnTheWayIsNoVoice(t *testing.T) {
	for _, forged := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := buildHall(t, 3)
			h.nodes[2].says, h.nodes[2].forged = `{"ok":true,"term":0,"known":[]}`, forged
			h.begin()
			defer h.end()
			h.nodes[1].kill("failed")
			held, _, err := h.nodes[0].lock.Take(t.Context())
			if forged != errors.Is(err, mesh.ErrLockMinority) {
				t.Errorf("forged %v: %v", forged, err)
			}
			if held != nil {
				held.Free(t.Context())
			}
		})
	}
}

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
		if _, _, err := h.nodes[0].lock.Take(t.Context()); err == nil || strings.Contains(err.Error(), "has not met") {
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
