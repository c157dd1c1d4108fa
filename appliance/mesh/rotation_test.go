package mesh_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

func TestSecretIsReplacedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		done := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() { c.watch(done) })
		var steps []string
		out, err := c.nodes[2].rotation.Rotate(t.Context(), func(p mesh.Progress) { steps = append(steps, p.Step+" "+p.Member+p.Fault) })
		if err != nil || len(out.Members) != 4 || out.Members[0] != "node3" || out.Generation != 1 || len(out.Away) != 0 {
			t.Fatalf("%+v, %v; %v", out, err, steps)
		}
		if len(steps) != 3+4+4+4 {
			t.Errorf("steps: %v", steps)
		}
		for _, h := range c.nodes {
			if !h.rotation.Second() || h.keys.SignsWith(secret) || len(h.rotation.Warnings()) != 0 {
				t.Errorf("%s: %s", h.Name, c.story())
			}
		}
		time.Sleep(85 * time.Second)
		if c.settled() {
			t.Error("the old secret is forgotten while requests signed with it may be on their way")
		}
		if _, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "try again in 5s") {
			t.Errorf("a second one too early: %v", err)
		}
		time.Sleep(10 * time.Second)
		if !c.settled() {
			t.Errorf("after 95 s: %s", c.story())
		}
		if out, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err != nil || out.Generation != 2 {
			t.Errorf("the next one: %+v, %v", out, err)
		}
		close(done)
		watching.Wait()
		c.end()
	})
}

// TestTheOldSecretIsForgottenThoughTheDiskIsFull: it is replaced since somebody has it who should not. A start with the file
// that could not be written forgets it again.
func TestTheOldSecretIsForgottenThoughTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		if _, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		full := c.nodes[1]
		kept := full.dir + ".kept"
		if err := os.Rename(full.dir, kept); err != nil {
			t.Fatal(err)
		}
		time.Sleep(95 * time.Second)
		if !c.settled() {
			t.Errorf("the old secret is still understood: %s", c.story())
		}
		if _, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "cannot write its secret") {
			t.Errorf("the next one: %v", err)
		}
		if err := os.Rename(kept, full.dir); err != nil {
			t.Fatal(err)
		}
		if out, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err != nil || len(out.Members) != 2 {
			t.Errorf("with room again: %+v, %v", out, err)
		}
		c.end()
	})
}

// TestNoOrderOfEventsPartsTheMesh: one, two or three nodes lead at a time over a network that delays and loses, and one of them may die and
// come back. At no moment is there a member that another does not understand, and in the end all have one secret.
func TestNoOrderOfEventsPartsTheMesh(t *testing.T) {
	for seed := range uint64(60) {
		t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { interleave(t, seed) })
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func interleave(t *testing.T, seed uint64) {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 1))
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(n)
	}
	c := newCircle(t, 3+roll(3))
	c.delay = func() time.Duration { return time.Duration(roll(400)) * time.Millisecond }
	losses := roll(4) * 5
	c.lose = func(*holder) (in, out bool) { return roll(100) < losses, roll(100) < losses }
	done := make(chan struct{})
	var watching, leading sync.WaitGroup
	watching.Go(func() { c.watch(done) })
	leaders := 1 + roll(3)
	for i := range leaders {
		h, after := c.nodes[i], time.Duration(roll(3000))*time.Millisecond
		leading.Go(func() {
			time.Sleep(after)
			out, err := h.rotation.Rotate(context.Background(), nil)
			t.Logf("%s: %+v, %v", h.Name, out, err)
		})
	}
	if roll(2) == 0 {
		victim := c.nodes[roll(len(c.nodes))]
		time.Sleep(time.Duration(roll(5000)) * time.Millisecond)
		victim.kill("failed")
		time.Sleep(time.Duration(roll(60)) * time.Second)
		victim.start()
		if !victim.join() { // it was away while the others went on: it needs their code
			defer func() {
				victim.stop()
				victim.given.Secret = c.secret()
				victim.start()
				if !victim.join() {
					t.Errorf("%s does not get in with the new code", victim.Name)
				}
				victim.stop()
			}()
		}
	}
	leading.Wait()
	c.rest()
	for try := 0; !c.settled(); try++ {
		if try == 3 {
			t.Fatalf("not settled: %s", c.story())
		}
		out, err := c.nodes[roll(len(c.nodes))].rotation.Rotate(context.Background(), nil)
		t.Logf("again: %+v, %v", out, err)
		c.rest()
	}
	close(done)
	watching.Wait()
	c.end()
}

// TestLeadThatDiesIsFinishedByAnother: at each step of its way, the members go on understanding each other, say that something is
// unfinished while it is, and the next run, on another node, ends with one secret.
func TestLeadThatDiesIsFinishedByAnother(t *testing.T) {
	for _, c := range []struct {
		step   string
		heard  int // how many have taken that step
		finish bool
	}{{"ask", 1, false}, {"accept", 1, true}, {"accept", 3, true}, {"use", 1, true}, {"use", 3, true}, {"done", 1, false}} {
		t.Run(c.step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leadDies(t, c.step, c.heard, c.finish) })
		})
	}
}

func leadDies(t *testing.T, step string, heard int, unfinished bool) {
	c := newCircle(t, 4)
	defer c.end()
	leader, count, died := c.nodes[3], 0, make(chan struct{})
	var mu sync.Mutex
	c.after = func(h *holder, s string) {
		if s != step || s == "done" && h != c.nodes[0] { // who is to say afterwards that it is done must have heard so
			return
		}
		mu.Lock()
		count++
		now := count == heard
		mu.Unlock()
		if now {
			go func() { leader.kill("failed"); close(died) }()
			time.Sleep(time.Millisecond) // the answer comes too late
		}
	}
	watched := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(watched) })
	if _, err := leader.rotation.Rotate(t.Context(), nil); err == nil && step != "done" {
		t.Fatal("it ended well")
	}
	<-died
	c.tame()
	warned := 0
	for _, h := range c.living() {
		for _, w := range h.rotation.Warnings() {
			if w.ID == "secret_rotation" && strings.Contains(w.Text, leader.Name) && strings.Contains(w.Fix, "join-code --rotate") {
				warned++
			}
		}
	}
	if (warned > 0) != unfinished && step != "done" {
		t.Errorf("%d warn: %s", warned, c.story())
	}
	resumed := ""
	out, err := c.nodes[0].rotation.Rotate(t.Context(), func(p mesh.Progress) {
		if p.Step == "resume" {
			resumed = p.Member
		}
	})
	if step == "done" {
		if err == nil || !strings.Contains(err.Error(), "try again in") {
			t.Errorf("before the old secret is forgotten: %+v, %v", out, err)
		}
	} else if err != nil || out.Generation != 1 || (resumed == leader.Name) != unfinished {
		t.Errorf("again: %+v, %v, resumed %q", out, err, resumed)
	}
	c.rest()
	if !c.settled() {
		t.Errorf("not settled: %s", c.story())
	}
	leader.start()
	if in := leader.join(); in == (step == "ask") { // before it has told anyone it has nothing that the others use
		t.Errorf("the leader came back: %v", in)
	}
	if c.rest(); !c.settled() {
		t.Errorf("with the leader: %s", c.story())
	}
	close(watched)
	watching.Wait()
}

// TestMemberThatDiesComesBackWithWhatItHad: it died when it had taken a step, and is back at once or after the old secret is forgotten.
func TestMemberThatDiesComesBackWithWhatItHad(t *testing.T) {
	for _, step := range []string{"accept", "use", "done"} {
		for _, away := range []time.Duration{0, 5 * time.Minute} {
			t.Run(step, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCircle(t, 4)
					defer c.end()
					victim, dead := c.nodes[1], make(chan struct{})
					dies := sync.OnceFunc(func() { go func() { victim.kill("failed"); close(dead) }() })
					c.after = func(at *holder, s string) {
						if at == victim && s == step {
							dies()
							time.Sleep(time.Millisecond)
						}
					}
					out, err := c.nodes[0].rotation.Rotate(t.Context(), nil)
					<-dead
					time.Sleep(away)
					victim.start()
					if !victim.join() {
						t.Fatalf("it does not come in: %s", c.story())
					}
					if err != nil {
						t.Logf("the first run: %v", err)
						out, err = c.nodes[2].rotation.Rotate(t.Context(), nil)
					}
					if err != nil || out.Generation != 1 {
						t.Errorf("%+v, %v", out, err)
					}
					if c.rest(); !c.settled() {
						t.Errorf("not settled: %s", c.story())
					}
				})
			})
		}
	}
}

// TestWhoWasAwayNeedsTheNewCode: it is listed, is not understood when it comes back, and gets in with the code.
func TestWhoWasAwayNeedsTheNewCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		defer c.end()
		c.nodes[1].kill("failed")
		c.nodes[3].kill("left")
		out, err := c.nodes[0].rotation.Rotate(t.Context(), nil)
		if err != nil || len(out.Away) != 1 || out.Away[0] != "node2" || len(out.Left) != 1 || out.Left[0] != "node4" {
			t.Fatalf("%+v, %v", out, err)
		}
		c.rest()
		for _, h := range []*holder{c.nodes[1], c.nodes[3]} {
			h.start()
			if h.join() {
				t.Errorf("%s comes in with the old secret", h.Name)
			}
			if status, _ := h.send(c.nodes[0], `{"step":"ask"}`); status != http.StatusForbidden {
				t.Errorf("what it signs is answered with %d", status)
			}
			h.stop()
			h.given.Secret = c.secret()
			h.start()
			if !h.join() {
				t.Errorf("%s does not come in with the new secret", h.Name)
			}
		}
		if !c.settled() {
			t.Error(c.story())
		}
		out, err = c.nodes[1].rotation.Rotate(t.Context(), nil)
		if err != nil || out.Generation != 2 || len(out.Members) != 4 {
			t.Errorf("the next one, led by who came with the code: %+v, %v", out, err)
		}
	})
}

// TestAMomentsSilenceShutsNobodyOut: a member that was asked, stood still until gossip had lost it, and goes on, has the new
// secret. One that dies there is away.
func TestAMomentsSilenceShutsNobodyOut(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCircle(t, 4)
			defer c.end()
			mark := func(state string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.dead[c.nodes[2].ID] = state; state == "" {
					delete(c.dead, c.nodes[2].ID)
				}
			}
			falls := sync.OnceFunc(func() { // others ask it, too, when it is back
				if dies {
					go c.nodes[2].kill("failed")
					return
				}
				mark("failed")
				time.AfterFunc(5*time.Second, func() { mark("") })
			})
			c.after = func(at *holder, step string) {
				if at == c.nodes[2] && step == "ask" {
					falls()
				}
			}
			out, err := c.nodes[0].rotation.Rotate(t.Context(), nil)
			if err != nil || dies != (len(out.Away) == 1) || dies != (len(out.Members) == 3) {
				t.Errorf("it dies: %v; %+v, %v", dies, out, err)
			}
			c.rest()
			if !c.settled() {
				t.Error(c.story())
			}
		})
	}
}
