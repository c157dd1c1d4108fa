package appliance

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/engine/plan"
	"viiwork/images"
)

// layout is what a configuration comes to on this machine.
type layout struct {
	models   []engine.Model
	cards    []gpu.Card
	warnings []status.Warning
	notes    []string // what was decided, for the owner
	memory   plan.Plan
}

// plan turns the configuration into what the engine is to serve, and refuses, at their positions, settings that this
// machine cannot hold. It changes nothing but the prompt caches that the configuration leaves open; keep has, by model, those
// of engines that run, which another size would end.
func (a *Appliance) plan(cfg *config.Config, keep map[string]int64) (layout, error) {
	s := Survey{Root: a.options.HostRoot, keep: keep, probe: a.docker.ProbeCards}
	faults, warnings := s.Check(context.Background(), cfg)
	if len(faults) > 0 && len(keep) > 0 { // another share for each may make room
		s.keep = nil
		faults, warnings = s.Check(context.Background(), cfg)
	}
	if len(faults) > 0 {
		return layout{}, faults
	}
	p := layout{cards: s.cards, models: s.models, notes: s.notes, memory: s.plan}
	p.warnings = a.warn(cfg, s.blind)
	for _, text := range warnings {
		p.warnings = append(p.warnings, status.Warning{ID: "plan", Text: text, Fix: "see 'viiwork models ls --all' for what fits this machine"})
		a.log.Warn("plan", "warning", text)
	}
	for _, note := range p.notes {
		a.log.Debug("plan", "note", note)
	}
	p.warnings = append(p.warnings, a.pinImages(cfg, p.models)...)
	return p, nil
}

// promptCaches are those of the models that are served, by name.
func promptCaches(cfg *config.Config) map[string]int64 {
	caches := map[string]int64{}
	for _, m := range cfg.Models {
		caches[m.Name] = m.Llamacpp.PromptCache
	}
	return caches
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
