package appliance_test

import (
	"fmt"
	"os"
	"testing"

	"viiwork/engine/enginetest"
)

// roleEnv makes this test program play another process: an engine, a node or a plain proxy, so that each one's CPU time
// and memory can be read apart.
const roleEnv = "VIIWORK_TEST_ROLE"

func TestMain(m *testing.M) {
	if enginetest.IsProgram() {
		os.Exit(enginetest.Main(os.Args[1:]))
	}
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
