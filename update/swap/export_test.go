package swap

import (
	"os"
	"path/filepath"
)

// Remember writes how earlier swaps ended.
func Remember(stateDir string, s State) error {
	f := At(stateDir)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return f.write("state.json", s)
}

// PlanFile is where a plan lies.
func PlanFile(stateDir string) string { return filepath.Join(stateDir, "swap", "plan.json") }

// NodeOf and HelperOf are the containers that are made of one.
var (
	NodeOf   = Self.node
	HelperOf = Self.helper
)
