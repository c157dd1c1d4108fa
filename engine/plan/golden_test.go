package plan_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/engine/gpu"
	"viiwork/engine/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// hosts has folders that stand for machines: what their kernels show, and programs that print what drivers' tools do.
const hosts = "../gpu/testdata/hosts"

// TestEachKindOfMachineIsPlanned finds the cards of each machine as on a real one, and holds proposals for every shape of
// model, alone, and for some together, against files.
func TestEachKindOfMachineIsPlanned(t *testing.T) {
	together := [][]string{{"dense-27B-Q4", "embedding-600M"}, {"moe-30B-A3B-Q4", "swa-12B-Q4", "mla-16B-Q4"}}
	folders, err := os.ReadDir(hosts)
	if err != nil || len(folders) != 8 {
		t.Fatalf("%d machines, %v", len(folders), err)
	}
	for _, folder := range folders {
		name := folder.Name()
		t.Run(name, func(t *testing.T) {
			machine := found(t, filepath.Join(hosts, name))
			var out strings.Builder
			fmt.Fprintf(&out, "%d cards, %d MiB of RAM\n\n", len(machine.Cards), machine.Memory/mib)
			for _, shape := range slices.Sorted(maps.Keys(shapes())) {
				draw(&out, machine, shape)
			}
			for _, names := range together {
				draw(&out, machine, names...)
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("the plans differ from %s (-update writes it):\n%s", path, out.String())
			}
		})
	}
}

func found(t *testing.T, root string) plan.Machine {
	host := gpu.At(root)
	cards, faults := host.List(t.Context())
	memory := host.Memory(t.Context())
	if len(faults) > 0 || memory == nil {
		t.Fatalf("%s: memory %v, %+v", root, memory, faults)
	}
	return plan.Machine{Cards: plan.Cards(cards), Memory: *memory}
}

func draw(out *strings.Builder, machine plan.Machine, names ...string) {
	var models []plan.Model
	for _, name := range names {
		models = append(models, plan.Model{Name: name, File: shapes()[name]})
	}
	p := plan.Propose(machine, models)
	fmt.Fprintf(out, "== %s\n", strings.Join(names, " + "))
	for _, m := range p.Models {
		fmt.Fprintf(out, "%s: accel %q, groups %v, shares %v, parallel %d, context %d, prompt_cache %d MiB\n",
			m.Name, m.Accel, m.Groups, m.Shares, m.Slots, m.Context, m.PromptCache/mib)
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(out, "%s is refused (%s): %s\n", names[r.Model], r.Key, r.Text)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(out, "%s: warning: %s\n", names[w.Model], w.Text)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(out, "- %s\n", n)
	}
	out.WriteByte('\n')
}
