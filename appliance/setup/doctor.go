// Package setup is what an owner meets before, beside and after a running node: the doctor, the files of a node and their
// way onto the disk, the service that runs them, and the uninstall.
//
// The doctor works with no node running and with a broken configuration. It changes nothing: it opens files to read
// them, binds ports and lets them go, and asks Docker and the graphics drivers what they see. Checks never fail each
// other; one that cannot be made for want of another's answer is skipped and says so.
//
// Files is pure: what is known of a Machine and what was decided, its Answers, in; files out, in the order in which they
// are written. Apply puts them on disk, all or none, and overwrites nothing unasked. Uninstall finds by place, marker, label
// and record what viiwork made, and leaves the rest. Nothing here runs on its own or keeps state between calls.
package setup

import (
	"context"
	"slices"

	"viiwork/appliance/config"
)

// State is a check's outcome.
type State string

const (
	OK   State = "ok"
	Warn State = "warn" // the node serves, but something will hurt
	Fail State = "fail" // the node, or one of its models, will not serve
	Skip State = "skip" // not asked for by this configuration, or not to be known
)

// Check is one finding. Cause and Fix are set where State is Warn or Fail.
type Check struct {
	ID    string `json:"id"` // stable: scripts branch on it
	State State  `json:"state"`
	Text  string `json:"text"`
	Cause string `json:"cause"`
	Fix   string `json:"fix"`
}

func ok(id, text string) Check   { return Check{ID: id, State: OK, Text: text} }
func skip(id, text string) Check { return Check{ID: id, State: Skip, Text: text} }

// fault is a Warn or a Fail: what is so, why, and the way out.
func fault(state State, id string, words [3]string) Check {
	return Check{ID: id, State: state, Text: words[0], Cause: words[1], Fix: words[2]}
}

// Healthy reports that no check failed.
func Healthy(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.State == Fail })
}

// Doctor makes all checks in a fixed order. cfg is nil when there is none to be had; env says why.
func Doctor(ctx context.Context, cfg *config.Config, env Probe) []Check {
	env = env.orReal(cfg)
	checks := []Check{checkConfig(cfg, env), checkClock(env)}
	if cfg == nil {
		return append(checks, skip("rest", "everything else needs a configuration"))
	}
	running, node := checkNode(ctx, env)
	checks = append(checks, checkStateDir(cfg, env), checkModelsDir(cfg))
	checks = append(checks, checkModelFiles(cfg)...)
	boxed := checkDocker(ctx, cfg, env)
	checks = append(checks, boxed...)
	checks = append(checks, checkNative(ctx, cfg, env)...)
	checks = append(checks, checkCards(ctx, cfg, env, boxed)...)
	checks = append(checks, checkMemory(cfg, env))
	checks = append(checks, checkPorts(cfg, env, running)...)
	checks = append(checks, checkBudget(cfg, env), checkMTU(env), checkNetworks(ctx, cfg, env), node)
	return append(checks, checkMesh(ctx, cfg, env)...)
}
