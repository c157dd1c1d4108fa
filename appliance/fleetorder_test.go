package appliance_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// TestWhoIsSlowToAnswerKeepsItsTurn: it is not away, and who leads does not go before it.
func TestWhoIsSlowToAnswerKeepsItsTurn(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 2, func(i int, m *mate) {
		if i == 1 {
			m.slow = 3 * time.Second
		}
	})
	fl.machines[0].lead("v1.1.0")
	holds(t, "both are updated", func() bool { return fmt.Sprint(fl.versions()) == "[v1.1.0 v1.1.0]" })
	if order, _ := fl.went(); fmt.Sprint(order) != "[n01 n00]" {
		t.Errorf("order %v", order)
	}
}

// TestOnlyWhoLeadsGivesOrders: a member that does not hold the lock of the mesh updates nobody, nor does who is none.
func TestOnlyWhoLeadsGivesOrders(t *testing.T) {
	t.Parallel()
	fl := newFleet(t, 2, nil)
	to := fl.machines[1]
	keys, err := mesh.NewKeys(mesh.KeyConfig{Secret: []byte("01234567890123456789012345678901")})
	if err != nil {
		t.Fatal(err)
	}
	member := mesh.NewSigner(mesh.SignerConfig{ID: fl.machines[0].id(t), Keys: mesh.NewKeyring(keys)})
	for name, c := range map[string]struct {
		path, body string
		signed     bool
		want       int
	}{
		"no member's":            {"/v1/update", `{"token":"a","roll":"r","version":"v1.1.0"}`, false, http.StatusForbidden},
		"one who does not lead":  {"/v1/update", `{"token":"a","roll":"r","version":"v1.1.0","named":true}`, true, http.StatusConflict},
		"without any token":      {"/v1/update", `{"roll":"r","version":"v1.1.0"}`, true, http.StatusConflict},
		"to no version":          {"/v1/update", `{"token":"a","roll":"r","version":"../v1"}`, true, http.StatusBadRequest},
		"no order":               {"/v1/update", `{"token"`, true, http.StatusBadRequest},
		"an end, of what is not": {"/v1/update/stop", `{"roll":"r"}`, true, http.StatusConflict},
		"an end, of a stranger":  {"/v1/update/stop", `{"roll":"r"}`, false, http.StatusForbidden},
	} {
		req, err := http.NewRequest(http.MethodPost, to.url()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.signed {
			member.Sign(req, to.id(t), sha256.Sum256([]byte(c.body)))
		}
		resp, err := quick.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
	}
	if order, _ := fl.went(); len(order) != 0 || fmt.Sprint(fl.versions()) != "[v1.0.0 v1.0.0]" {
		t.Errorf("updated were %v", order)
	}
}
