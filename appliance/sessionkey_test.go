package appliance_test

import (
	"testing"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// sessionAt waits until the digest of a conversation at the node is want, or, for "", known.
func (f *fellow) sessionAt(t *testing.T, want string) (got string) {
	t.Helper()
	holds(t, "the session's digest at "+f.name, func() bool {
		if !f.chat("", question("m", "hello", 4, false), "X-Session-Id", "Conversation-1").complete(false) {
			return false
		}
		var rows []status.Request
		if !f.read("/api/requests?n=1", &rows) || len(rows) != 1 {
			return false
		}
		got = rows[0].Session
		return want == "" && got != "" || got == want
	})
	return got
}

// TestASessionHasOneDigestOnAllNodes, also when the mesh's secret has been replaced: after a restart, and at a node that came in
// after it.
func TestASessionHasOneDigestOnAllNodes(t *testing.T) {
	t.Parallel()
	e := fakeEngine(t, enginetest.Options{Slots: 4, Model: "m", DecodeTPS: 500})
	all := lanFellows(t, 3, func(i int) []string {
		if i > 0 {
			return nil
		}
		return []string{served("m", e.URL(), 4)}
	})
	for _, f := range all[:2] {
		f.secret = rightSecret
		f.spawn(t)
	}
	session := all[0].sessionAt(t, "")
	if got := all[1].sessionAt(t, ""); got != session || len(got) != 16 {
		t.Fatalf("%s has the digest %q, %s %q", all[0].name, session, all[1].name, got)
	}
	holds(t, "the two know each other", func() bool { return all[0].member(all[1].name) == "alive" && all[1].member(all[0].name) == "alive" })
	if done, steps, fault := all[1].rotate(t); done == nil || len(done.Members) != 2 {
		t.Fatalf("%+v, %s, %v", done, fault, steps)
	}
	for _, f := range all[:2] {
		if got := f.sessionAt(t, ""); got != session {
			t.Errorf("with the new secret %s has the digest %q, not %q", f.name, got, session)
		}
	}
	all[0].leave()
	all[0].spawn(t)
	if got := all[0].sessionAt(t, ""); got != session {
		t.Errorf("after a restart %s has the digest %q, not %q", all[0].name, got, session)
	}
	all[2].knows(all[0].kept(t))
	all[2].spawn(t)
	all[2].sessionAt(t, session)
	if got := all[1].sessionAt(t, ""); got != session {
		t.Errorf("who came in changed the digest at %s to %q from %q", all[1].name, got, session)
	}
}
