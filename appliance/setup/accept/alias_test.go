package accept_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"viiwork/appliance/setup/accept"
	"viiwork/appliance/status"
)

// names is a node that keeps them, and has two models.
type names struct {
	at, before map[string]string
	stuck      bool // it takes a revert and does nothing
}

func (n *names) do(r *http.Request) (*http.Response, error) {
	header := http.Header{"X-Viiwork-Node": {"attic"}}
	answer := func(doc any) (*http.Response, error) {
		text, err := json.Marshal(doc)
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(string(text)))}, err
	}
	var body struct{ Name, Target, Model string }
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	last := path.Base(r.URL.Path)
	switch {
	case r.URL.Path == "/v1/status":
		return answer(status.Node{Node: "attic"})
	case r.URL.Path == "/api/aliases":
		n.before[body.Name], n.at[body.Name] = n.at[body.Name], body.Target
	case last == "revert":
		if name := path.Base(path.Dir(r.URL.Path)); !n.stuck {
			n.at[name] = n.before[name]
		}
	case r.Method == http.MethodDelete:
		delete(n.at, last)
	case strings.HasPrefix(r.URL.Path, "/v1/models/"):
		return answer(map[string]any{"id": last, "viiwork": map[string]string{"alias_of": n.at[last]}})
	case n.at[body.Model] != "":
		header["X-Viiwork-Model"], header["X-Viiwork-Alias"] = []string{n.at[body.Model]}, []string{body.Model}
	}
	return answer(struct{}{})
}

// TestANameIsSwitchedRevertedAndRemoved: a name leads where it should at each step, and none stays, also where one was wrong.
func TestANameIsSwitchedRevertedAndRemoved(t *testing.T) {
	for _, c := range []struct {
		stuck  bool
		want   accept.Outcome
		detail string
	}{
		{false, accept.Pass, "switched to other, reverted and removed"},
		{true, accept.Fail, `it leads to "other" there, not to m`},
	} {
		t.Run(fmt.Sprint("stuck=", c.stuck), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := names{at: map[string]string{}, before: map[string]string{}, stuck: c.stuck}
				models := []accept.Model{{Name: "m"}, {Name: "v", Kind: accept.Embedding}, {Name: "other"}}
				found := false
				for _, r := range accept.Run(t.Context(), accept.Config{Node: "attic", Models: models, Do: n.do}) {
					if r.Check != "alias:m" {
						continue
					}
					if found = true; r.Outcome != c.want || !strings.Contains(r.Detail, c.detail) {
						t.Errorf("got %+v, want %s with %q", r, c.want, c.detail)
					}
				}
				if !found || len(n.at) > 0 {
					t.Errorf("checked: %t, left: %v", found, n.at)
				}
			})
		})
	}
}
