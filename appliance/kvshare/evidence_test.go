package kvshare_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"viiwork/appliance/kvshare"
	"viiwork/engine"
)

// TestACacheThatIsOfNoUseIsGivenUpForOneBuild of an engine: a restart of it changes nothing, another build is tried again.
func TestACacheThatIsOfNoUseIsGivenUpForOneBuild(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 1, args: []string{"--fake-cold-restore"}})
	c := newTalk("one", 1000)
	h.turn(c)
	for i := range 3 {
		if k := h.Report("n").Models[0]; !k.Enabled || h.Figures("m") == nil {
			t.Fatalf("given up after %d: %+v", i, k)
		}
		h.displace(c)
		h.turn(c, c.own())
		if c.moved != "import" || c.cached != 0 {
			t.Fatalf("%d: it came by %q with %d tokens", i, c.moved, c.cached)
		}
	}
	givenUp := func() bool {
		k := h.Report("n").Models[0]
		return !k.Enabled && k.Why != "" && h.Figures("m") == nil && h.log.count("caches of this model are moved no more") == 1
	}
	if !givenUp() {
		t.Errorf("not given up: %+v", h.Report("n"))
	}
	h.turn(newTalk("two", 800))
	if h.turn(c, c.own()); c.moved != "" {
		t.Error("and yet a cache was moved")
	}
	h.kill()
	h.await("the engine has ended", func() bool { return h.state().State != engine.StateReady })
	h.Tidy()
	h.recovers(1)
	h.Tidy()
	if !givenUp() {
		t.Errorf("a restart of the same build brings it back: %+v", h.Report("n"))
	}
	another := h.model
	another.Env = map[string]string{"LLAMA_ARG_ROPE_FREQ_SCALE": "0.5"}
	h.engine.Apply([]engine.Model{another})
	h.await("the other engine is ready", func() bool { tr, ok := h.engine.KVTraits(backend); return ok && tr.Alters != "" })
	h.Forget(backend)
	h.Tidy()
	if k := h.Report("n").Models[0]; !k.Enabled || h.Figures("m") == nil {
		t.Errorf("another build is not tried: %+v", k)
	}
	h.turn(c)
	h.displace(c)
	if h.turn(c, c.own()); c.moved != "import" {
		t.Errorf("it came by %q", c.moved)
	}
}

// TestAPromptThatDropsPartOfTheAnswerIsNoFailure: templates leave reasoning out of the next prompt.
func TestAPromptThatDropsPartOfTheAnswerIsNoFailure(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 1})
	c := newTalk("one", 1000)
	for i := range 5 {
		prompt := c.text
		c.says("> ")
		r, err := h.begin(context.Background(), c, 400, fetchIf(i > 0, c)...)
		if err != nil {
			t.Fatal(err)
		}
		r.end()
		if i > 0 && c.moved != "import" {
			t.Fatalf("turn %d came by %q", i, c.moved)
		}
		c.text = prompt + "> short. "
		h.displace(c)
	}
	if k := h.Report("n"); !k.Models[0].Enabled || k.Pairs[0].Failed != 0 || k.Pairs[0].Proved != 4 {
		t.Errorf("it is held against the engine: %+v", k)
	}
}

// TestATurnThatHasEndedIsGivenWhileItsCacheIsJudged: the next one may come at another node at once.
func TestATurnThatHasEndedIsGivenWhileItsCacheIsJudged(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 1})
	c := newTalk("one", 1000)
	asked := false
	for i := range 2 {
		prompt := c.text
		c.says("> ")
		r, err := h.begin(context.Background(), c, 400, fetchIf(i > 0, c)...)
		if err != nil {
			t.Fatal(err)
		}
		r.asked = func() { asked = true; h.saved(c) }
		r.end()
		if i == 0 {
			c.text = prompt + "> short. " + strings.Repeat("new ", 250) // less is in common than was restored: the tokens tell
			h.displace(c)
		}
	}
	if !asked || c.moved != "import" {
		t.Errorf("came by %q, judged by its tokens: %t", c.moved, asked)
	}
}

func fetchIf(yes bool, c *talk) []*kvshare.Fetch {
	if !yes {
		return nil
	}
	return []*kvshare.Fetch{c.own()}
}

// TestWhatWasKeptIsFoundAfterARestart and used.
func TestWhatWasKeptIsFoundAfterARestart(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 1})
	var all []*talk
	for i := range 3 {
		all = append(all, newTalk(fmt.Sprint("one", i), 1000))
		h.turn(all[i])
		h.displace(all[i])
	}
	h.stop()
	h.open()
	h.await("all are known again", func() bool {
		n := 0
		for _, c := range all {
			n += len(h.known.Find("m", c.session, c.chain).Stored)
		}
		return n == len(all)
	})
	for _, c := range all {
		held := c.held
		if h.turn(c, c.own()); c.moved != "import" || !c.warm(held) {
			t.Errorf("%s came by %q with %d of %d tokens", c.session, c.moved, c.cached, held)
		}
	}
	if k := h.Report("n"); k.Store.Replicas < 3 || k.Pairs[0].Proved != 3 {
		t.Errorf("it tells %+v", k)
	}
	h.isTidy()
}

// TestAnEngineThatBeganAnewHoldsNothing: what a slot of the one before held is not saved out of one that happens to be of the
// same length.
func TestAnEngineThatBeganAnewHoldsNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{})
	a := newTalk("one", 1000)
	h.turn(a)
	h.kill()
	h.recovers(1)
	b := newTalk("two", 1000)
	h.turn(b)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := h.Manifest(ctx, fmt.Sprintf("%x", a.chain[0])); err == nil {
		t.Error("the state of another conversation was given out for it")
	}
	h.saved(b)
	h.isTidy()
}

// TestTwoRequestsOfOneConversationAtOnce: a title is asked for while the answer is written. Neither loses anything, and both
// slots are known.
func TestTwoRequestsOfOneConversationAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 2, args: []string{"--fake-decode-tps", "200"}})
	lone := newTalk("six", 1100) // lies in the slot that the title will take
	h.turn(lone)
	c := newTalk("one", 1000)
	h.turn(c)
	held := lone.held
	c.says("> ")
	title := c.fork(c.session)
	answer, err := h.begin(context.Background(), c, 1000) // 5 s: longer than the title takes
	if err != nil {
		t.Fatal(err)
	}
	asks, err := h.begin(context.Background(), title, 8)
	if err != nil {
		t.Fatal(err)
	}
	asks.end()
	answer.end()
	if h.turn(lone, lone.own()); lone.moved != "import" || !lone.warm(held) {
		t.Errorf("the one displaced by the title came by %q with %d of %d tokens", lone.moved, lone.cached, held)
	}
	held = c.held
	if h.turn(c, c.own()); !c.warm(held) {
		t.Errorf("the answered one found %d of %d tokens", c.cached, held)
	}
	h.isTidy()
}

// TestAModelWhoseSlotsCannotBeSavedIsGivenUp once, and says so once: as one that reads images.
func TestAModelWhoseSlotsCannotBeSavedIsGivenUp(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{slots: 1, args: []string{"--fake-no-saves"}})
	for i := range 3 {
		h.turn(newTalk(fmt.Sprint("one", i), 1000))
	}
	if k := h.Report("n").Models[0]; k.Enabled || k.Why == "" || k.Saves != 0 || h.Figures("m") != nil {
		t.Errorf("it tells %+v", k)
	}
	if n := h.log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, h.log)
	}
	h.isTidy()
}
