package appliance

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/images"
)

// plan is what a configuration comes to on this machine.
type plan struct {
	models   []engine.Model
	cards    []gpu.Card
	warnings []status.Warning
}

// plan turns the configuration into what the engine is to serve, and refuses, at their positions, settings that this
// machine cannot hold. It changes nothing.
func (a *Appliance) plan(cfg *config.Config) (plan, error) {
	cards, blind := gpu.List(context.Background(), a.hostRoot(), gpu.Exec)
	p := plan{cards: cards}
	var faults config.Faults
	for i, m := range cfg.Models {
		key := "models[" + itoa(i) + "]"
		model, err := engineModel(m)
		if err != nil {
			faults = append(faults, cfg.Fault(key+".llamacpp.image", "%v", err))
			continue
		}
		model.Accel = accelOf(model, m.Llamacpp.Image, cards)
		for n, index := range m.GPUs {
			if known := indices(cards, model.Accel); len(known) > 0 && !slices.Contains(known, index) {
				faults = append(faults, cfg.Fault(key+".gpus["+itoa(n)+"]", "this machine has no card %d: it has %s", index, listOf(known, model.Accel)))
			}
		}
		p.models = append(p.models, model)
	}
	if len(faults) > 0 {
		return plan{}, faults
	}
	p.warnings = a.warn(cfg, blind)
	return p, nil
}

// warn lists, and logs, what the owner should know and what is no reason to refuse: a missing or broken model file, for
// one, which the engine holds back while the other models are served.
func (a *Appliance) warn(cfg *config.Config, blind []gpu.Fault) []status.Warning {
	warnings := []status.Warning{}
	for _, f := range cfg.CheckFiles() {
		a.log.Warn("model held back", "fault", f.Error())
		warnings = append(warnings, status.Warning{ID: "model_file", Text: f.Error(), Fix: "put the file there or correct the path, then reload"})
	}
	for _, f := range blind {
		warnings = append(warnings, status.Warning{ID: "gpu", Text: f.Text, Fix: f.Fix})
	}
	for _, text := range cfg.Warnings() {
		warnings = append(warnings, status.Warning{ID: "config", Text: text, Fix: "see 'viiwork config show'"})
		a.log.Warn("configuration", "warning", text)
	}
	return warnings
}

// CheckImages names the images that no engine can come from, each at its position. Like a model's file it is no part of
// reading the configuration: which short names there are is the catalogue's to say.
func CheckImages(cfg *config.Config) config.Faults {
	var faults config.Faults
	for i, m := range cfg.Models {
		if _, err := engineModel(m); err != nil {
			faults = append(faults, cfg.Fault("models["+itoa(i)+"].llamacpp.image", "%v", err))
		}
	}
	return faults
}

// engineModel copies one configured model; image names are resolved, nothing is looked up on this machine.
func engineModel(m config.Model) (engine.Model, error) {
	l := m.Llamacpp
	model := engine.Model{
		Name: m.Name, Path: m.Path, Runner: engine.RunnerKind(l.Runner), Binary: l.Binary, URL: strings.TrimSuffix(l.URL, "/"),
		Context: m.Context, Parallel: m.Parallel, StartupTimeout: m.StartupTimeout, Args: m.Args, Env: m.Env,
		PromptCache: l.PromptCache, SplitMode: l.SplitMode, SplitWeights: l.SplitWeights, Threads: l.Threads,
	}
	for _, group := range m.Backends() {
		model.Backends = append(model.Backends, engine.BackendSpec{GPUs: group})
	}
	if model.Runner == engine.RunnerExternal {
		model.Backends = []engine.BackendSpec{{}}
		model.Path = ""
		return model, nil
	}
	var err error
	if model.Runner == engine.RunnerDocker {
		model.Image, err = images.Resolve(l.Image)
	}
	return model, err
}

// accelOf says what kind of cards a model's gpus are: by its image's name, else by what this machine has.
func accelOf(m engine.Model, image string, cards []gpu.Card) engine.Accel {
	named := strings.ToLower(filepath.Base(image))
	switch {
	case m.Runner == engine.RunnerNative && runtime.GOOS == "darwin":
		return engine.AccelMetal
	case len(m.Backends) == 0 || len(m.Backends[0].GPUs) == 0:
		return engine.AccelNone
	case m.Runner == engine.RunnerDocker && (strings.Contains(named, "rocm") || strings.Contains(named, "gfx")):
		return engine.AccelROCm
	case m.Runner == engine.RunnerDocker && strings.Contains(named, "cuda"):
		return engine.AccelCUDA
	}
	for _, card := range cards {
		if card.Index == m.Backends[0].GPUs[0] {
			return card.Accel
		}
	}
	return engine.AccelCUDA
}

func indices(cards []gpu.Card, accel engine.Accel) (known []int) {
	for _, card := range cards {
		if card.Accel == accel {
			known = append(known, card.Index)
		}
	}
	return known
}

// listOf writes "cuda cards 0, 1 and 2".
func listOf(known []int, accel engine.Accel) string {
	var b strings.Builder
	b.WriteString(string(accel) + " card")
	if len(known) > 1 {
		b.WriteByte('s')
	}
	for i, n := range known {
		switch {
		case i == 0:
			b.WriteByte(' ')
		case i == len(known)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(itoa(n))
	}
	return b.String()
}

func (a *Appliance) hostRoot() string {
	if a.options.HostRoot == "" {
		return "/"
	}
	return a.options.HostRoot
}
