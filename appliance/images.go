package appliance

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/images"
)

// pinImages lets each model start from the very image that was checked, and says which have none. A book that cannot be read
// pins nothing: that is no reason not to serve.
func (a *Appliance) pinImages(cfg *config.Config, models []engine.Model) (warnings []status.Warning) {
	book, err := images.OpenBook(images.BookFile(cfg.Node.StateDir))
	if err != nil {
		a.log.Warn("no image is held to what was checked", "error", err)
		warnings = append(warnings, status.Warning{ID: "image", Text: err.Error(), Fix: "do as it says, then reload"})
	}
	said := map[string]bool{}
	for i := range models {
		if models[i].Runner != engine.RunnerDocker {
			continue
		}
		ref := models[i].Image
		pinned, ok := book.Pin(ref)
		models[i].Image = pinned
		if ok || said[ref] || err != nil {
			continue
		}
		said[ref] = true
		warnings = append(warnings, status.Warning{
			ID:   "image",
			Text: fmt.Sprintf("image %s was neither fetched nor made by viiwork: engines run whatever has that name here", ref),
			Fix:  "'viiwork images pull' or 'viiwork images build', then reload; or leave it, if the image is of your own making",
		})
	}
	return warnings
}

// imagesOf lists what each model's engines are started from.
func imagesOf(models []engine.Model) (all []string) {
	for _, m := range models {
		all = append(all, m.Image)
	}
	return all
}

// homeTime is how long Docker may take to describe one container.
const homeTime = 10 * time.Second

// checkHome refuses, where the node itself runs in a container, folders that are others on the machine: engines are given
// them by path. A Docker that does not answer refuses nothing; the engines say so.
func (a *Appliance) checkHome(ctx context.Context, cfg *config.Config) error {
	if !usesDocker(cfg) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, homeTime)
	defer cancel()
	home, err := a.docker.Home(ctx)
	if err != nil {
		a.log.Warn("this node runs in a container whose mounts are unknown", "error", err)
	}
	if home == nil {
		return nil
	}
	var faults config.Faults
	check := func(key, path string) {
		path, err := filepath.Abs(path)
		if err != nil {
			return
		}
		switch at := home.At(path); {
		case at == path:
		case at == "":
			faults = append(faults, cfg.Fault(key, "%s is in the container %s alone, and engines run beside it: mount it at the same path, -v %s:%s", path, home.Name, path, path))
		default:
			faults = append(faults, cfg.Fault(key, "%s of the container %s is %s on this machine, and engines run beside it: mount it at the same path, -v %s:%s", path, home.Name, at, path, path))
		}
	}
	check("node.state_dir", cfg.Node.StateDir)
	for i, m := range cfg.Models {
		if m.Llamacpp.Runner == string(engine.RunnerDocker) {
			check("models["+itoa(i)+"].path", m.Path)
		}
	}
	if !home.HostNetwork {
		faults = append(faults, cfg.Fault("models", "the container %s has a network of its own, and engines answer on 127.0.0.1 of this machine alone: run it with --network host", home.Name))
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

func usesDocker(cfg *config.Config) bool {
	for _, m := range cfg.Models {
		if m.Llamacpp.Runner == string(engine.RunnerDocker) {
			return true
		}
	}
	return false
}
