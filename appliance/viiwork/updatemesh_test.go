package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"viiwork/appliance/status"
)

// led is a node that leads a roll-out: each look at it finds the next of these states. One without a version is no answer at
// all, as while it starts anew. It is reached without a network, so that it answers in a time that passes only when all wait, too.
func led(states ...status.Rollout) *node {
	n := nodeAt("", "viiwork serve")
	n.http.Transport = lookedAt(func(*http.Request) (*http.Response, error) {
		now := states[0]
		if len(states) > 1 {
			states = states[1:]
		}
		if now.Version == "" && now.Members == nil {
			return nil, io.ErrUnexpectedEOF
		}
		text, err := json.Marshal(now)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text))}, err
	})
	return n
}

// lookedAt is what comes of a look.
type lookedAt func(*http.Request) (*http.Response, error)

func (l lookedAt) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }

func rolling(stage, why string, members ...status.RolloutMember) status.Rollout {
	return status.Rollout{Version: "v1.1.0", Lead: "attic", Led: true, Stage: stage, Why: why, Members: members}
}

// TestUpdateOfTheMeshIsFollowedToItsEnd: a line for each news, also over the leader's own restart, of which nothing is said unless it
// takes long.
func TestUpdateOfTheMeshIsFollowedToItsEnd(t *testing.T) {
	attic, barn := status.RolloutMember{Name: "attic", From: "v1.0.0", State: "waiting"}, status.RolloutMember{Name: "barn", From: "v1.0.0", State: "updating", Act: "fetching"}
	done := func(m status.RolloutMember) status.RolloutMember { m.State, m.Act = "done", ""; return m }
	const silence = "this machine's node does not answer at this moment, as while it starts anew: it is waited for\n"
	for away, told := range map[int]string{1: "", 5: "", 8: silence} { // looks without an answer, two a second
		synctest.Test(t, func(t *testing.T) {
			states := []status.Rollout{rolling("running", "", attic, barn), rolling("running", "", attic, barn), rolling("running", "", attic, done(barn))}
			states = append(states, make([]status.Rollout, away)...)
			n := led(append(states, rolling("ended", "", done(attic), done(barn)))...)
			var out, said bytes.Buffer
			c := &cli{Streams: Streams{Out: &out, Err: &said}}
			if err := c.followMesh(context.Background(), n, meshUpdate{}); err != nil {
				t.Fatal(err)
			}
			if want := "barn: fetching\nbarn: done\n" + told + "attic: done\n"; said.String() != want {
				t.Errorf("silent %d times, said:\n%s", away, said.String())
			}
			if !strings.HasPrefix(out.String(), "v1.1.0 was rolled out, led by attic\n") || !strings.Contains(out.String(), "barn   v1.0.0  done") {
				t.Errorf("printed:\n%s", out.String())
			}
		})
	}
}

// TestUpdateOfTheMeshThatNeverBeganIsToldOf: the node was asked and died with the wish, so that what it tells of, if anything, is
// what was before.
func TestUpdateOfTheMeshThatNeverBeganIsToldOf(t *testing.T) {
	before, later := rolling("stopped", "barn went back from v1.1.0"), rolling("ended", "")
	before.Begun, later.Begun = time.Unix(1_000_000, 0), time.Unix(2_000_000, 0)
	older := rolling("ended", "")
	older.Version = "v1.0.0"
	nothing := status.Rollout{Members: []status.RolloutMember{}}
	begins := status.Rollout{Stage: "running", Why: "it is about to begin", Lead: "attic", Members: []status.RolloutMember{}}
	for name, c := range map[string]struct {
		last   status.Rollout
		states []status.Rollout
		lost   bool
	}{
		"the first one":         {nothing, []status.Rollout{begins, {}, nothing}, true},
		"after another":         {older, []status.Rollout{begins, {}, older}, true},
		"after one that failed": {before, []status.Rollout{begins, {}, before}, true},
		"it was quick":          {before, []status.Rollout{begins, later}, false},
		"it was seen":           {nothing, []status.Rollout{rolling("running", ""), {}, later}, false},
		"it went on":            {func() status.Rollout { r := later; r.Stage = "running"; return r }(), []status.Rollout{begins, later}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := led(c.states...)
			var out, said bytes.Buffer
			cli := &cli{Streams: Streams{Out: &out, Err: &said}}
			err := cli.followMesh(t.Context(), n, meshUpdate{wants: "v1.1.0", last: c.last})
			if !c.lost && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if c.lost && (err == nil || exitCode(err) != exitFailed || !strings.Contains(err.Error(), "it has not begun") || out.Len() > 0) {
				t.Errorf("%s: %v, printed:\n%s", name, err, out.String())
			}
		})
	}
}

func TestUpdateOfTheMeshThatStopsFails(t *testing.T) {
	back := status.RolloutMember{Name: "barn", From: "v1.0.0", State: "left", Why: "went back: m is\x1b[31m not ready"}
	n := led(rolling("stopped", "barn went back from v1.1.0", back))
	var out, said bytes.Buffer
	c := &cli{Streams: Streams{Out: &out, Err: &said}}
	err := c.followMesh(context.Background(), n, meshUpdate{})
	if err == nil || !strings.Contains(err.Error(), "no other node is updated: barn went back") || exitCode(err) != exitFailed {
		t.Error(err)
	}
	if strings.Contains(out.String()+said.String(), "\x1b") {
		t.Error("a node drives the terminal")
	}
	if says := strings.Count(out.String(), "went back"); says != 1 {
		t.Errorf("the reason is told %d times:\n%s", says, out.String())
	}
}

// TestWhatARolloutWaitsForIsSaid also where there is no terminal, and once.
func TestWhatARolloutWaitsForIsSaid(t *testing.T) {
	attic, barn := status.RolloutMember{Name: "attic", From: "v1.0.0", State: "waiting"}, status.RolloutMember{Name: "barn", From: "v1.0.0", State: "done"}
	waits := rolling("running", "attic is the only ready host of m", attic, barn)
	synctest.Test(t, func(t *testing.T) {
		n := led(waits, waits, rolling("ended", "", attic, barn))
		var out, said bytes.Buffer
		c := &cli{Streams: Streams{Out: &out, Err: &said}}
		if err := c.followMesh(context.Background(), n, meshUpdate{}); err != nil || said.String() != "barn: done\nattic is the only ready host of m\n" {
			t.Errorf("%v, said:\n%s", err, said.String())
		}
	})
}

// TestANodeThatIsSilentIsToldOf once in a row without a terminal, and below the bars on one.
func TestANodeThatIsSilentIsToldOf(t *testing.T) {
	var screen, said bytes.Buffer
	c := &cli{Streams: Streams{Err: &said}}
	b := &meshBars{cli: c, out: &screen, size: func() (int, int) { return 100, 24 }, said: map[string]string{}, full: map[string]int{}}
	b.at(rolling("running", "", status.RolloutMember{Name: "attic", State: "waiting"}))
	b.silent()
	if drawn := screen.String(); !strings.HasSuffix(drawn, "attic  [--------------------] waiting\nthis machine's node does not answer at this moment, as while it starts anew: it is waited for\n") {
		t.Errorf("%q", drawn)
	}
	b.out = nil
	for range 2 {
		b.silent()
		b.silent()
		b.at(rolling("running", "", status.RolloutMember{Name: "attic", State: "waiting"}))
	}
	if n := strings.Count(said.String(), "it is waited for"); n != 2 {
		t.Errorf("told %d times of two", n)
	}
}

// TestWhoWasLeftIsToldAfterTheEnd until it has the version all the same.
func TestWhoWasLeftIsToldAfterTheEnd(t *testing.T) {
	r := rolling("ended", "", status.RolloutMember{Name: "attic", From: "v1.0.0", State: "done"}, status.RolloutMember{Name: "barn", From: "v1.0.0", State: "left", Why: "it belongs to dpkg"})
	for barn, says := range map[string]bool{"v1.0.0": true, "v1.1.0": false} {
		page := drawCluster(status.Cluster{Rollout: &r, Members: []status.Member{{Name: "attic", Version: "v1.1.0"}, {Name: "barn", Version: barn}}}, false).String()
		if strings.Contains(page, "barn   v1.0.0  left as it is  it belongs to dpkg") != says {
			t.Errorf("barn has %s:\n%s", barn, page)
		}
	}
}

func TestPlanOfTheMeshIsShown(t *testing.T) {
	p := rolling("planned", "", status.RolloutMember{Name: "attic", From: "v1.0.0", State: "done"},
		status.RolloutMember{Name: "barn", From: "v1.1.0", State: "done"}, status.RolloutMember{Name: "cellar", From: "v1.0.0", State: "left", Why: "it belongs to dpkg"})
	p.Order = []string{"attic"}
	want := `v1.1.0, one node at a time, each on trial before the next:
  1. attic

NODE    FROM    UPDATE         WHY
attic   v1.0.0  to be done
barn    v1.1.0  done
cellar  v1.0.0  left as it is  it belongs to dpkg
`
	if got := drawPlan(p, false).String(); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestUpdateOfTheMeshIsEnded wherever it is led from, which is waited for, and is no failure.
func TestUpdateOfTheMeshIsEnded(t *testing.T) {
	stopped := func(stage string) status.Rollout {
		r := rolling(stage, "it was stopped at attic on 2026-03-01 02:01 UTC", status.RolloutMember{Name: "barn", From: "v1.0.0", State: "waiting"})
		r.StoppedBy, r.StoppedAt = "attic", time.Unix(1, 0)
		return r
	}
	for name, c := range map[string]struct {
		states []status.Rollout
		says   string
	}{
		"under way": {[]status.Rollout{rolling("running", "it is being stopped"), stopped("running"), stopped("stopped")}, "the roll-out of v1.1.0, led by attic, has stopped: it was stopped at attic"},
		"over":      {[]status.Rollout{rolling("ended", "", status.RolloutMember{Name: "barn", State: "done"})}, "v1.1.0 was rolled out, led by attic"},
		"none":      {[]status.Rollout{{Stage: "", Members: []status.RolloutMember{}}}, "no version is being rolled out"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, said bytes.Buffer
			c0 := &cli{Streams: Streams{Out: &out, Err: &said}}
			if err := c0.stopAt(context.Background(), led(c.states...), false); err != nil || !strings.HasPrefix(out.String(), c.says) {
				t.Errorf("%v, printed %s", err, out.String())
			}
			out.Reset()
			said.Reset()
			if err := c0.stopAt(context.Background(), led(c.states...), true); err != nil || !json.Valid(out.Bytes()) {
				t.Errorf("%v, printed %s", err, out.String())
			}
			if name == "none" && (said.Len() > 0 || strings.Contains(out.String(), "begun")) {
				t.Errorf("of none it told %s%s", said.String(), out.String())
			}
		})
	}
}

// TestEachNodeHasItsBar in a screen of any size, drawn over what was drawn before; what names say does not move the cursor.
func TestEachNodeHasItsBar(t *testing.T) {
	var screen bytes.Buffer
	b := &meshBars{out: &screen, size: func() (int, int) { return 60, 12 }, said: map[string]string{}, full: map[string]int{}}
	r := rolling("running", strings.Repeat("because ", 20))
	for i := range 30 {
		r.Members = append(r.Members, status.RolloutMember{Name: fmt.Sprint("n", i), State: "waiting"})
	}
	r.Members[17].State, r.Members[17].Act, r.Members[17].Done, r.Members[17].Size = "updating", "fetching", 12<<20, 24<<20
	r.Members[18].State, r.Members[18].Why = "left", "\x1b[2Jof dpkg"
	lines := b.lines(r)
	if len(lines) != 10 || !strings.Contains(lines[1], "n17  [#####---------------] fetching 12.0 MiB of 24.0 MiB") || !strings.HasPrefix(lines[2], "n18") || lines[9] != "and 22 more" {
		t.Errorf("%q", lines)
	}
	b.at(r)
	b.at(r)
	if r.Members[17].Act, r.Members[17].Size = "", 0; !strings.HasPrefix(b.lines(r)[1], "n17  [#####-") {
		t.Errorf("while it is away: %q", b.lines(r)[1])
	}
	if lines := b.lines(rolling("running", "it is about to begin")); fmt.Sprint(lines) != "[it is about to begin]" {
		t.Errorf("before it begins: %q", lines)
	}
	alone := rolling("running", "", r.Members[0])
	if alone.Led = false; b.lines(alone)[0] != "v1.1.0, led by attic, which is not there: 0 of 1 node" {
		t.Errorf("without its leader: %q", b.lines(alone))
	}
	drawn := screen.String()
	if strings.Count(drawn, "\x1b") != 3 || strings.Count(drawn, "\x1b[10A") != 1 || strings.Count(drawn, "\x1b[J") != 2 {
		t.Errorf("%q", drawn)
	}
	for _, l := range strings.Split(drawn, "\n") {
		if n := utf8.RuneCountInString(strings.TrimLeft(l, "\r")); n > 60+len("\x1b[10A\r\x1b[J") {
			t.Errorf("%d wide: %q", n, l)
		}
	}
}
