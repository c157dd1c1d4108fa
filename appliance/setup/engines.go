package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/images"
)

// checkDocker tries each image that a model wants. One that is missing does not hide the others.
func checkDocker(ctx context.Context, cfg *config.Config, env Probe) []Check {
	wanted := settings(cfg, "docker", func(l config.Llamacpp) string { return l.Image })
	if len(wanted) == 0 {
		return []Check{skip("docker", "no model uses Docker")}
	}
	var checks []Check
	for _, image := range wanted {
		id := "image:" + image
		ref, err := images.Resolve(image)
		if err != nil {
			checks = append(checks, fault(Fail, id, [3]string{"there is no image " + image, err.Error(), "set llamacpp.image to one of those, or to a full reference"}))
			continue
		}
		if err := env.Image(ctx, ref); err != nil {
			checks = append(checks, fault(Fail, id, [3]string{ref + " cannot be run", err.Error(), "do as the cause says, or use runner: native"}))
			continue
		}
		checks = append(checks, ok(id, ref+" is here and runs"))
	}
	return checks
}

func checkNative(ctx context.Context, cfg *config.Config, env Probe) []Check {
	wanted := settings(cfg, "native", func(l config.Llamacpp) string { return l.Binary })
	if len(wanted) == 0 {
		return []Check{skip("native", "no model uses a program of this machine")}
	}
	var checks []Check
	for _, binary := range wanted {
		id := "binary:" + binary
		if err := env.Program(ctx, binary); err != nil {
			checks = append(checks, fault(Fail, id, [3]string{binary + " cannot be run", err.Error(), "install llama.cpp, or set llamacpp.binary to where llama-server is"}))
			continue
		}
		checks = append(checks, ok(id, binary+" is here and runs"))
	}
	return checks
}

// settings collects, once each, what the models of one runner say.
func settings(cfg *config.Config, runner string, of func(config.Llamacpp) string) []string {
	var found []string
	for _, m := range cfg.Models {
		if value := of(m.Llamacpp); m.Llamacpp.Runner == runner && !slices.Contains(found, value) {
			found = append(found, value)
		}
	}
	return found
}

// checkGPUs compares the cards that models name with those the drivers show. Indices count within a family of cards, so
// a name is believed when either family has it.
func checkGPUs(ctx context.Context, cfg *config.Config, env Probe) Check {
	const id = "gpus"
	wanted := map[int]string{}
	for _, m := range cfg.Models {
		for _, g := range m.GPUs {
			wanted[g] = m.Name
		}
	}
	if len(wanted) == 0 {
		return skip(id, "no model names a graphics card")
	}
	cards, faults := env.Cards(ctx)
	usable := map[int]bool{}
	for _, card := range cards {
		usable[card.Index] = usable[card.Index] || !card.Split
	}
	var missing []string
	for _, g := range slices.Sorted(maps.Keys(wanted)) {
		if !usable[g] {
			missing = append(missing, fmt.Sprintf("%d (%s)", g, wanted[g]))
		}
	}
	if len(missing) == 0 {
		return ok(id, fmt.Sprintf("all %d named cards are there", len(wanted)))
	}
	text := "these cards cannot be used: " + strings.Join(missing, ", ")
	if len(faults) == 0 {
		return fault(Fail, id, [3]string{text, "no driver shows them as whole cards",
			"correct 'gpus' (indices as nvidia-smi or rocm-smi count them), or install the driver"})
	}
	var causes, fixes []string
	for _, f := range faults {
		causes, fixes = append(causes, f.Text), append(fixes, f.Fix)
	}
	return fault(Fail, id, [3]string{text, strings.Join(causes, "\n"), strings.Join(fixes, "\n")})
}
