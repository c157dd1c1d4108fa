package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/status"
)

const (
	rolloutPath = "/api/update/mesh"
	// meshEvery is how often a roll-out is looked at, and meshAway how long the node that leads may be gone: its own turn comes
	// last, and it starts anew then.
	meshEvery = 500 * time.Millisecond
	meshAway  = 5 * time.Minute
	// leadAway is how long nobody may lead what is followed at another node, meshQuiet how long this machine's may be silent untold.
	leadAway  = 30 * time.Second
	meshQuiet = 3 * time.Second
	// stopAway is longer than the word of a node that leads and is gone counts: then this machine's node leads, to end it.
	stopAway = 3 * time.Minute
)

// meshUpdate is what 'update --mesh' is asked.
type meshUpdate struct {
	to           string
	plan, asJSON bool
	stop         bool // it is to end, and that is waited for
	// wants is the version that the node was asked to lead a moment ago, "" for what was under way; last is what there was before.
	wants string
	last  status.Rollout
}

// lost tells whether what the node was asked for never began: nobody is told of a wish before a majority has it, so it ends with
// the node.
func (f meshUpdate) lost(now status.Rollout) bool {
	return f.wants != "" && (now.Version != f.wants || f.last.Stage != "running" && now.Begun.Equal(f.last.Begun))
}

var errNotBegun = errors.New("it has not begun, and no node was told: this machine's node was started anew, or told to stop, before the mesh knew of it: run 'viiwork update --mesh' again")

// updateMesh has this machine's node bring the whole mesh to a version, and follows that. One that is under way is followed.
func (c *cli) updateMesh(ctx context.Context, f meshUpdate) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	var now status.Rollout
	if err := n.get(ctx, rolloutPath, &now); err == nil && now.Led && now.Stage == "running" && !f.plan {
		if f.to != "" && f.to != now.Version {
			return coded{exitRefused, fmt.Errorf("%s is being rolled out by %s: wait for its end, or end it with 'viiwork update --mesh --stop'", printable(now.Version), printable(now.Lead))}
		}
		return c.followMesh(ctx, n, f)
	}
	if err := c.lookFor(ctx, f.to); err != nil {
		return err
	}
	plan, err := n.rollout(ctx, status.RolloutRequest{Version: f.to, Plan: true})
	if err != nil {
		return err
	}
	if f.plan && f.asJSON {
		return c.printJSON(plan)
	}
	page := drawPlan(plan, c.bold())
	if f.plan || len(plan.Order) == 0 {
		return c.print(page)
	}
	c.note("%s", strings.TrimRight(page.String(), "\n"))
	yes, err := c.ask(ctx, fmt.Sprintf("update %s to %s, one at a time?", count(len(plan.Order), "node"), printable(plan.Version)), "give --yes, or --plan to look only")
	if err != nil {
		return err
	}
	if !yes {
		return errUnwanted
	}
	begins, err := n.rollout(ctx, status.RolloutRequest{Version: f.to})
	if err != nil {
		return err
	}
	f.wants, f.last = begins.Version, now
	return c.followMesh(ctx, n, f)
}

// lookFor finds a version that a person names, as this machine will when its turn comes: what is not there, or is nobody's,
// would else be found out by the first node, and be a roll-out that has stopped.
func (c *cli) lookFor(ctx context.Context, version string) error {
	if version == "" {
		return nil
	}
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	u, err := c.updater(cfg, updateFlags{})
	if err != nil {
		return err
	}
	if _, _, err := u.Find(ctx, version, true); err != nil { // whether it is too old is for each node to say
		return fmt.Errorf("looking for %s: %w: no node was told", printable(version), err)
	}
	return nil
}

// rollout asks the node to plan one, or to lead it.
func (n *node) rollout(ctx context.Context, want status.RolloutRequest) (out status.Rollout, err error) {
	body, err := n.call(ctx, http.MethodPost, rolloutPath, want)
	var no *refused
	if errors.As(err, &no) && no.status == http.StatusConflict {
		return out, coded{exitRefused, err}
	}
	if err != nil {
		return out, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("reading the node's answer: %w", err)
	}
	return out, nil
}

// followMesh shows a roll-out until its end. Who leaves earlier changes nothing by it.
func (c *cli) followMesh(ctx context.Context, n *node, f meshUpdate) error {
	bars := newMeshBars(c)
	defer bars.clear()
	heard, told, led := time.Now(), time.Now(), time.Now()
	for {
		var now status.Rollout
		err := n.get(ctx, rolloutPath, &now)
		var no *refused
		switch {
		case err == nil:
			heard = time.Now()
			if now.StoppedBy != "" {
				told = heard
			}
			if now.Led {
				led = heard
			}
			if now.Stage == "running" && now.Version != "" {
				f.wants = "" // a majority has it
			}
			if bars.at(now); now.Stage != "running" {
				bars.clear()
				if f.lost(now) {
					return errNotBegun
				}
				return c.endMesh(now, f)
			}
			if !f.stop && heard.Sub(led) > leadAway && !n.named(ctx, now.Lead) {
				return fmt.Errorf("%s, which led this, is not there any more: 'viiwork update --mesh' goes on with it from here, and with --stop ends it", printable(now.Lead))
			}
			if f.stop && heard.Sub(told) > stopAway {
				return fmt.Errorf("who leads has not been told yet: %s; this machine's node goes on trying", printable(now.Why))
			}
		case ctx.Err() != nil && f.stop:
			return errors.New("left before it has stopped: this machine's node goes on seeing to that; 'viiwork status --mesh' tells how far it is")
		case ctx.Err() != nil:
			return errors.New("left while the mesh is updated: that goes on; 'viiwork status --mesh' tells how far it is, 'viiwork update --mesh --stop' ends it")
		case errors.As(err, &no) && no.status == http.StatusConflict:
			return coded{exitRefused, err}
		case time.Since(heard) > meshAway && f.wants != "":
			return fmt.Errorf("this machine's node does not answer any more, and nothing may have begun: start it, then run 'viiwork update --mesh' again: %w", err)
		case time.Since(heard) > meshAway:
			return fmt.Errorf("this machine's node does not answer any more: %w", err)
		case time.Since(heard) > meshQuiet:
			bars.silent()
		}
		select {
		case <-ctx.Done():
		case <-time.After(meshEvery):
		}
	}
}

// named tells whether that is this node's name.
func (n *node) named(ctx context.Context, name string) bool {
	var is status.Node
	return n.get(ctx, "/v1/status", &is) == nil && is.Node == name
}

// stopMesh ends the roll-out that is under way, whichever node leads it, and waits until the member at hand is done with.
func (c *cli) stopMesh(ctx context.Context, asJSON bool) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	return c.stopAt(ctx, n, asJSON)
}

func (c *cli) stopAt(ctx context.Context, n *node, asJSON bool) error {
	f := meshUpdate{asJSON: asJSON, stop: true}
	now, err := n.rollout(ctx, status.RolloutRequest{Stop: true})
	switch {
	case err != nil:
		return err
	case now.Stage == "running":
		return c.followMesh(ctx, n, f)
	case now.Version == "" && asJSON:
		return c.printJSON(now)
	case now.Version == "":
		return c.print(bytes.NewBufferString("no version is being rolled out\n"))
	}
	c.note("no version is being rolled out; the last one:")
	return c.endMesh(now, f)
}

// endMesh tells how it ended.
func (c *cli) endMesh(r status.Rollout, f meshUpdate) error {
	if f.asJSON {
		if err := c.printJSON(r); err != nil {
			return err
		}
	} else {
		out := new(bytes.Buffer)
		drawRollout(out, r, c.bold())
		if err := c.print(out); err != nil {
			return err
		}
	}
	if r.Stage == "stopped" && !f.stop {
		return fmt.Errorf("stopped, and no other node is updated: %s", printable(r.Why))
	}
	return nil
}

// drawPlan is the page of 'update --mesh --plan'.
func drawPlan(p status.Rollout, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	switch behind := slices.ContainsFunc(p.Members, func(m status.RolloutMember) bool { return m.State != "done" }); {
	case len(p.Order) == 0 && behind:
		fmt.Fprintf(out, "nothing can be done for %s now:\n\n", printable(p.Version))
	case len(p.Order) == 0:
		fmt.Fprintf(out, "nothing is to be done for %s: every node has it, or a newer one\n\n", printable(p.Version))
	default:
		fmt.Fprintf(out, "%s, one node at a time, each on trial before the next:\n", printable(p.Version))
		for i, name := range p.Order {
			fmt.Fprintf(out, "%3d. %s\n", i+1, printable(name))
		}
		out.WriteByte('\n')
	}
	drawMembers(out, p, bold)
	return out
}

// drawRollout is what a roll-out has come to.
func drawRollout(out *bytes.Buffer, r status.Rollout, bold bool) {
	version, lead, why := printable(r.Version), printable(r.Lead), printable(r.Why)
	switch {
	case r.Stage == "ended":
		fmt.Fprintf(out, "%s was rolled out, led by %s", version, lead)
	case r.Stage == "stopped":
		fmt.Fprintf(out, "the roll-out of %s, led by %s, has stopped", version, lead)
		if r.StoppedBy == "" {
			why = "" // it stands with the node whose fault it is
		}
	case r.Led:
		fmt.Fprintf(out, "%s is being rolled out, led by %s", version, lead)
	default:
		fmt.Fprintf(out, "%s is being rolled out, led by %s, which is not there", version, lead)
	}
	if why != "" {
		fmt.Fprintf(out, ": %s", why)
	}
	out.WriteString("\n\n")
	drawMembers(out, r, bold)
}

func drawMembers(out *bytes.Buffer, r status.Rollout, bold bool) {
	t := table{bold: bold, head: []string{"NODE", "FROM", "UPDATE", "WHY"}}
	for _, m := range r.Members {
		state, why := m.State, m.Why
		switch {
		case slices.Contains(r.Order, m.Name):
			state = "to be done"
		case m.Act != "":
			why = m.Act + meshBytes(m)
		case m.State == "left": // not the mesh, which is what the word means elsewhere
			state = "left as it is"
		case m.State == "waiting" && r.Stage == "stopped":
			state = "not updated"
		case m.State == "offline" && r.Stage != "stopped":
			why = cmp.Or(why, "its turn comes when it is back")
		}
		t.add(m.Name, orDash(m.From), state, why)
	}
	t.draw(out)
}
