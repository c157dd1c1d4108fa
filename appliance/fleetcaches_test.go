package appliance_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

// TestWhoIsUpdatedGivesItsConversationsAway before it goes, with what the engine has of them, to members that are at work all the
// time: else copies wait for them.
func TestWhoIsUpdatedGivesItsConversationsAway(t *testing.T) {
	t.Parallel()
	dir, program := t.TempDir(), enginetest.Program(t)
	path := filepath.Join(dir, "tiny.gguf")
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	fl := newFleet(t, 3, func(_ int, m *mate) {
		m.ends, m.trial, m.more = true, time.Hour, "kv_share: {mode: pull}\n" // nobody else's turn comes while it is looked what became of this one's
		m.models = []string{fmt.Sprintf("  - {name: m, path: %q, context: 16384, parallel: 4, args: [--fake-prefill-tps, \"1000\", --fake-decode-tps, \"100\"], llamacpp: {runner: native, binary: %q, prompt_cache: 64MiB}}\n", path, program)}
	})
	nodes := []*fellow{fl.machines[0].fellow, fl.machines[1].fellow, fl.machines[2].fellow}
	for _, f := range nodes {
		holds(t, f.name+" sees all engines", func() bool { return f.hasSlots(12) })
	}
	newMover("what the engine learns its speed by", 2500).turn(t, nodes[1])
	holds(t, "that is stored", func() bool { return nodes[1].kv(t).Store.Replicas == 1 })
	var all []*mover
	for i := range 10 {
		m := newMover(fmt.Sprint("talk ", i), 2500+200*i)
		m.turn(t, nodes[1])
		all = append(all, m)
		if i < 6 { // these will lie in no slot any more, and what was lost before is not the update's
			holds(t, "it is stored", func() bool { return nodes[1].kv(t).Store.Replicas > i+1 })
		}
	}
	ends := make(chan struct{})
	var busy sync.WaitGroup
	for _, f := range []*fellow{nodes[0], nodes[0], nodes[2], nodes[2]} { // two each, so that one is at work while the other begins
		busy.Go(func() {
			for {
				select {
				case <-ends:
					return
				default:
				}
				if got := f.chat("?host="+f.name, question("m", "on and on", 100, true)); !got.complete(true) {
					t.Errorf("%d %v %.300s", got.status, got.err, got.body)
					return
				}
			}
		})
	}
	fl.machines[0].lead("v1.1.0")
	holds(t, "their home is started anew", func() bool { return fl.machines[1].version() == "v1.1.0" })
	copies := nodes[0].kv(t).Store.Replicas + nodes[2].kv(t).Store.Replicas
	close(ends)
	busy.Wait()
	if copies < 9 {
		t.Errorf("%d of 10 conversations have a copy with others when their home ends", copies)
	}
	moves, warm := 0, 0
	for i, m := range all {
		m.turn(t, nodes[i%2*2])
		moves, warm = moves+m.moves, warm+m.warm
		t.Log(m.name, m.routes)
	}
	t.Logf("%d of %d moved conversations are warm", warm, moves)
	if moves != 10 || warm*100 < moves*90 {
		t.Errorf("%d of %d warm", warm, moves)
	}
}
