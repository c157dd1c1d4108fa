package appliance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// TestOwnerAsksMembersWhatClientsMay: by the node's socket, what any client may ask, living members alone.
func TestOwnerAsksMembersWhatClientsMay(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 1, Model: "m"})
	all := lanFellows(t, 2, func(i int) []string { return [][]string{{served("m", engine.URL(), 1)}, nil}[i] })
	for _, f := range all {
		f.spawn(t)
	}
	one, two := all[0], all[1]
	holds(t, "they know each other", func() bool { return one.member(two.name) == "alive" && two.sees("m") == 1 && one.sees("m") == 1 })

	got := one.owner(t, "GET", "/api/members/"+two.name+"/v1/status", "")
	var seen status.Node
	if got.status != 200 || json.Unmarshal([]byte(got.body), &seen) != nil || seen.Node != two.name {
		t.Errorf("the status of %s: %d %.300s", two.name, got.status, got.body)
	}
	ask, _ := json.Marshal(question("m", "hello", 4, false))
	got = one.owner(t, "POST", "/api/members/"+two.name+"/v1/chat/completions", string(ask))
	if got.status != 200 || got.header.Get("X-Viiwork-Origin") != two.name || got.header.Get("X-Viiwork-Node") != one.name {
		t.Errorf("a question by way of %s: %d, origin %q, node %q: %.300s", two.name, got.status, got.header.Get("X-Viiwork-Origin"), got.header.Get("X-Viiwork-Node"), got.body)
	}
	for path, want := range map[string]int{
		"/api/members/nobody/v1/status":                  http.StatusNotFound,
		"/api/members/" + one.name + "/v1/status":        http.StatusNotFound, // it is no other
		"/api/members/127.0.0.1/v1/status":               http.StatusNotFound,
		"/api/members/" + two.name + "/api/requests":     http.StatusNotFound,
		"/api/members/" + two.name + "/v1/../api/kv":     http.StatusNotFound,
		"/api/members/" + two.name + "/v1/%2e%2e/api/kv": http.StatusNotFound,
	} {
		if got := one.owner(t, "GET", path, ""); got.status != want {
			t.Errorf("%s: %d, want %d: %.300s", path, got.status, want, got.body)
		}
	}
	resp, err := http.Get(one.url() + "/api/members/" + two.name + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || strings.Contains(string(text), two.name) {
		t.Errorf("a client of the network: %d %.300s", resp.StatusCode, text)
	}
}

// TestARequestIsFoundFromAnyNode, with the plan that only the node has where it came in.
func TestARequestIsFoundFromAnyNode(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 1, Model: "m"})
	all := lanFellows(t, 3, func(i int) []string { return [][]string{nil, {served("m", engine.URL(), 1)}, nil}[i] })
	for _, f := range all {
		f.spawn(t)
	}
	entry := all[0].name
	holds(t, "the entry sees the model, and all see the entry", func() bool {
		return all[0].sees("m") == 1 && all[1].member(entry) == "alive" && all[2].member(entry) == "alive"
	})
	id := all[0].chat("", question("m", "hello", 4, false)).header.Get("X-Viiwork-Request-Id")
	for _, f := range all {
		var row status.Request
		holds(t, f.name+" finds it", func() bool { return f.read("/api/requests/"+id, &row) && row.ID == id && row.State == "done" })
		if row.Entry != entry || row.Node != all[1].name || row.Plan == nil {
			t.Errorf("%s tells %+v", f.name, row)
		}
	}
	if got := all[2].owner(t, "GET", "/api/requests/none", ""); got.status != http.StatusNotFound {
		t.Errorf("one that never was: %d", got.status)
	}
}
