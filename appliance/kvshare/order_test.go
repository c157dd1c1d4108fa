package kvshare_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

// TestTheLastStateOfAConversationStays, however many wait for the store.
func TestTheLastStateOfAConversationStays(t *testing.T) {
	t.Parallel()
	h := newHost(t, plan{still: true})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var asked sync.WaitGroup
	defer asked.Wait()
	saves := 0
	save := func(c *talk) {
		h.turn(c)
		link := fmt.Sprintf("%x", c.chain[len(c.chain)-1])
		asked.Go(func() { _, _ = h.Manifest(ctx, link) })
		saves++
		h.await("it is saved", func() bool { return h.Report("n").Models[0].Saves == saves })
	}
	c, d := newTalk("one", 1000), newTalk("two", 700)
	save(c)
	save(d)
	save(c) // now more wait than may
	h.runs(h.Run)
	h.saved(d)
	h.saved(c)
	asked.Wait()
	h.saved(c)
	h.isTidy()
}

// TestAMemberThatHasNoReplicaItSpeaksOfIsNotBelieved: its word counts as little as that of one whose engines hold nothing.
func TestAMemberThatHasNoReplicaItSpeaksOfIsNotBelieved(t *testing.T) {
	t.Parallel()
	home, away := newHost(t, plan{}), newHost(t, plan{})
	away.joins("a")
	talks := 0
	turn := func(m *member, stored bool) string { // of a conversation that is new to both
		talks++
		c := newTalk(fmt.Sprintf("t%02d", talks), 600)
		home.turn(c)
		home.saved(c)
		f := c.of(m)
		if f.Stored = -1; stored { // else it lies in a slot, and need not be saved
			f.Stored = f.Link
		}
		away.turn(c, f)
		return c.moved
	}
	for name, l := range map[string]liar{
		"nothing": {manifest: func(*transfer.State) error { return errors.New("gone") }},
		"list":    {chunk: func([]byte) ([]byte, error) { return nil, errors.New("gone") }},
		"other":   {chunk: func(b []byte) ([]byte, error) { return make([]byte, len(b)), nil }},
	} {
		l.Source = home.Share
		m := newMember(t, name, &l, nil)
		warned := func() int { return away.log.count("does not hold the conversations that it says it holds") }
		before := warned()
		for i := range 3 {
			turn(m, i > 0)
		}
		if warned() != before {
			t.Errorf("%s: it is not believed after two failures", name)
		}
		if turn(m, true); warned() != before+1 {
			t.Errorf("%s: it is believed after three failures", name)
		}
	}
	honest := newMember(t, "h", home.Share, nil)
	if moved := turn(honest, true); moved != "pull" {
		t.Errorf("from one who has it it came by %q", moved)
	}
}

// TestAMemberThatDiesInSilenceIsNotWaitedFor any longer than it takes to miss it.
func TestAMemberThatDiesInSilenceIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	away := newHost(t, plan{})
	a := newMember(t, "a", away.Share, nil)
	away.Join(kvshare.Net{ID: "a", Client: a.client, Guard: func(ctx context.Context, _ string) (context.Context, func()) {
		guarded, missed := context.WithCancelCause(ctx)
		missed(mesh.ErrSilent)
		return guarded, func() {}
	}})
	c := newTalk("one", 1000)
	c.says("")
	away.turn(c, c.of(newMember(t, "h", away.Share, silent)))
	if c.moved != "" || away.log.count(mesh.ErrSilent.Error()) != 1 {
		t.Errorf("it came by %q\n%s", c.moved, away.log)
	}
	away.isTidy()
}
