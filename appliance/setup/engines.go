package setup

import (
	"context"
	"slices"

	"viiwork/appliance/config"
	"viiwork/images"
)

// checkDocker tries each image that a model wants. One that is missing does not hide the others.
func checkDocker(ctx context.Context, cfg *config.Config, env Probe) []Check {
	wanted := settings(cfg, "docker", func(l config.Llamacpp) string { return l.Image })
	if len(wanted) == 0 {
		return []Check{skip("docker", "no model uses Docker")}
	}
	// A book that cannot be read pins nothing here either; the node's status says so.
	book, _ := images.OpenBook(images.BookFile(cfg.Node.StateDir))
	var checks []Check
	for _, image := range wanted {
		id := "image:" + image
		ref, err := images.Resolve(image)
		if err != nil {
			checks = append(checks, fault(Fail, id, [3]string{"there is no image " + image, err.Error(), "set llamacpp.image to one of those, or to a full reference"}))
			continue
		}
		pinned, checked := book.Pin(ref)
		if err := env.Image(ctx, pinned); err != nil {
			checks = append(checks, fault(Fail, id, [3]string{ref + " cannot be run", err.Error(), "do as the cause says, or use runner: native"}))
			continue
		}
		text := ref + " is here and runs"
		if checked {
			text += ", the very one that was checked"
		}
		checks = append(checks, ok(id, text))
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
