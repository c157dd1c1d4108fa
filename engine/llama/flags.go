package llama

import (
	"fmt"
	"slices"

	"viiwork/engine"
)

// Flags gives the arguments of one backend for that build, address left out; the owner's come last, so that theirs win.
func (d *Dialect) Flags(b engine.Build, o engine.Options) ([]string, error) {
	if err := checkOptions(o); err != nil {
		return nil, err
	}
	if err := checkEnv(o.Model.Env); err != nil {
		return nil, err
	}
	own, err := ownersArgs(b, o.Model.Args)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, w := range slices.Concat(modelWishes(), privacyWishes(), hardwareWishes()) {
		values, wanted := w.values(b, o)
		if !wanted {
			continue
		}
		name := firstKnown(b, w.names)
		if name == "" && w.must {
			return nil, fmt.Errorf("llama-server %s has no %s: use a newer build", b.Version, w.names[0])
		}
		if name != "" {
			args = append(append(args, name), values...)
		}
	}
	return append(args, own...), nil
}

// checkOptions refuses what no flag can say. The configuration has checked the same; this keeps a slip there from
// becoming an engine that runs with another context than the one announced.
func checkOptions(o engine.Options) error {
	m := o.Model
	switch {
	case m.Path == "":
		return fmt.Errorf("model %s has no file: set path", m.Name)
	case m.Context < 1 || m.Parallel < 1:
		return fmt.Errorf("model %s has %d slots of %d tokens: set context and parallel", m.Name, m.Parallel, m.Context)
	case len(m.SplitWeights) > 0 && len(o.GPUs) > 1 && len(m.SplitWeights) != len(o.GPUs):
		return fmt.Errorf("model %s has %d split_weights for %d cards a backend: give one a card", m.Name, len(m.SplitWeights), len(o.GPUs))
	}
	return nil
}

func firstKnown(b engine.Build, names []string) string {
	for _, n := range names {
		if b.Flags[n] {
			return n
		}
	}
	return ""
}
