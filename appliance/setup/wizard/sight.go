package wizard

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/engine/gpu"
	"viiwork/engine/plan"
)

// Sight is what a machine shows.
type Sight struct {
	Machine setup.Machine // where files go
	Path    string        // of the configuration, where its owner names one; "" = where Machine has it
	OS      string        // linux or darwin
	Name    string        // of the host
	Cards   []gpu.Card
	Faults  []gpu.Fault // what keeps cards from being used
	Memory  int64       // bytes of RAM; 0 = unknown

	Native string          // the path of llama-server; "" = there is none
	Docker string          // why no container can be started; "" = nothing is known against it
	Images map[string]bool // engine images by their short name: true = it is here; nil = nobody looked
	// Compose is what must be done before 'docker compose' can start a node here; nil = nothing is known against it.
	Compose []string

	Config *config.Config // that is there already; nil = none
	Secret config.Secret  // of the mesh that this machine is in already; nil = none
	Fresh  config.Secret  // for a mesh that is started now

	Variables []byte // what the file of secrets beside the configuration says; nil = there is none
}

// Look looks at the hardware of host, and changes nothing.
func Look(ctx context.Context, host gpu.Host, m setup.Machine) Sight {
	s := Sight{Machine: m, OS: host.OS, Fresh: make(config.Secret, 32)}
	rand.Read(s.Fresh) // never fails
	s.Cards, s.Faults = host.List(ctx)
	if memory := host.Memory(ctx); memory != nil {
		s.Memory = *memory
	}
	s.Name, _ = os.Hostname()
	if host.Root == "/" {
		s.Native, _ = exec.LookPath("llama-server")
	}
	return s
}

func (s Sight) machine() plan.Machine {
	return plan.Machine{Cards: plan.Cards(s.Cards), Memory: s.Memory}
}
