package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"viiwork/engine/enginetest"
)

// TestACompactionIsAccountedApart: at its entry and at its owner, which is another node; neither the turns before and after
// nor a small request of the same session pass for one.
func TestACompactionIsAccountedApart(t *testing.T) {
	t.Parallel()
	onEngines(t, enginetest.Options{Slots: 4, PrefillTPS: 50_000, DecodeTPS: 2000}, compaction)
}

func compaction(t *testing.T, serve func() string) {
	fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 4, serve()), change: patient})
	a, b := fl.peers[0], fl.peers[1]
	c := newTalk(t, "talk", true, 1500)
	turn := func(what string, compacted bool) {
		t.Helper()
		c.turn(&a.node)
		c.known(a, b)
		for _, p := range fl.peers {
			if row := p.g.Requests(1)[0]; row.Compacted != compacted {
				t.Errorf("%s, at %s: compacted %v", what, p.Name, row.Compacted)
			}
		}
	}
	for i := range 5 {
		turn(fmt.Sprint("turn ", i), false)
		c.messages[len(c.messages)-1]["content"] += strings.Repeat(fmt.Sprint(" output ", i), 150)
	}
	title := `{"model":"m","messages":[{"role":"system","content":"You write titles."},{"role":"user","content":"talk talk talk"}],"max_tokens":8}`
	if r := a.post("/v1/chat/completions", title, "X-Session-Id", c.name); r.status != 200 || a.g.Requests(1)[0].Compacted {
		t.Errorf("a title: %d %+v", r.status, a.g.Requests(1)[0])
	}
	last := c.messages[len(c.messages)-1]
	c.messages = append(c.messages[:1], map[string]string{"role": "user", "content": "What was done before, in short: nothing."}, last)
	turn("the compaction", true)
	turn("the turn after it", false)
	turn("and the next", false)
}

// TestOwnerKnowsThatAConversationWasKnownByItsPrompt, as its entry does.
func TestOwnerKnowsThatAConversationWasKnownByItsPrompt(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 2, PrefillTPS: 50_000, DecodeTPS: 2000})
	fl := newFleet(t, nil, spec{change: patient}, spec{models: model("m", 2, f.URL()), change: patient})
	c := newTalk(t, "talk", false, 3000)
	for _, want := range []string{"none", "prefix"} {
		c.turn(&fl.peers[0].node)
		c.known(fl.peers...)
		for _, p := range fl.peers {
			if row := p.g.Requests(1)[0]; row.KeySource != want {
				t.Errorf("at %s it is %q, want %q", p.Name, row.KeySource, want)
			}
		}
	}
}
