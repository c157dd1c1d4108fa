package appliance

import (
	"context"
	"os"
	"slices"
	"strconv"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/engine"
	"viiwork/engine/gguf"
	"viiwork/engine/gpu"
	"viiwork/engine/llama"
	"viiwork/engine/plan"
)

// Survey looks at a machine, and holds configurations against it. The zero value is the machine this runs on.
type Survey struct {
	Root string // where /sys and /proc are looked for; "" = /

	probe  func(ctx context.Context, image, program string, args ...string) (string, error) // asks in a container; nil = here alone
	keep   map[string]int64                                                                 // prompt caches that running engines have, by model: an open one stays as it is
	cards  []gpu.Card
	blind  []gpu.Fault // what keeps cards from being seen
	models []engine.Model
	files  config.Faults
	notes  []string
	plan   plan.Plan
}

// Notes says in sentences what the last Check decided, and why.
func (s *Survey) Notes() []string { return s.notes }

// Files names, at their positions, the model files that the last Check found missing or broken. They keep their models from
// being served, and no others.
func (s *Survey) Files() config.Faults { return s.files }

// Check looks at the machine anew and names, at their positions, the settings it cannot hold. Prompt caches that the
// configuration leaves open are set to what the plan gives them. What is unknown is a warning.
func (s *Survey) Check(ctx context.Context, cfg *config.Config) (config.Faults, []string) {
	s.look(ctx, cfg)
	wishes, from, faults := s.wishes(cfg)
	if len(faults) > 0 {
		return faults, nil
	}
	p := plan.Check(s.machine(), wishes)
	s.plan = p
	for _, r := range p.Refusals {
		faults = append(faults, cfg.Fault(keyOf(cfg, from[r.Model], r), "%s", r.Text))
	}
	var warnings []string
	for _, w := range p.Warnings {
		if wishes[w.Model].File.Path != "" { // what is wrong with a file is told elsewhere
			warnings = append(warnings, w.Text)
		}
	}
	if s.notes = p.Notes; len(faults) > 0 {
		return faults, warnings
	}
	for at, m := range p.Models {
		cfg.PlanPromptCache(from[at], m.PromptCache)
		s.models[from[at]].PromptCache = m.PromptCache
	}
	return nil, warnings
}

// wishes is what the configured models want of the machine, and which of them each is. Servers that somebody else runs want
// nothing.
func (s *Survey) wishes(cfg *config.Config) (wishes []plan.Model, from []int, faults config.Faults) {
	s.models, s.files = nil, cfg.CheckFiles()
	store := openCalibration(cfg.Node.StateDir)
	for i, m := range cfg.Models {
		model, err := engineModel(m)
		if err != nil {
			faults = append(faults, cfg.Fault(modelKey(i, "llamacpp.image"), "%v", err))
			continue
		}
		model.Accel = accelOf(model, m.Llamacpp.Image, s.cards)
		s.models = append(s.models, model)
		if model.Runner == engine.RunnerExternal {
			continue
		}
		wish, err := wishOf(model)
		if key := modelKey(i, "path"); err != nil && !slices.ContainsFunc(s.files, func(f config.Fault) bool { return f.Key == key }) {
			s.files = append(s.files, cfg.Fault(key, "%v", err))
		}
		if !cfg.IsSet(config.PromptCacheKey(i)) {
			wish.PromptCache = -1
			if bytes, running := s.keep[m.Name]; running {
				wish.PromptCache = bytes
			}
		}
		wish.Beside = store.of(wish.File, s.cards, model)
		wishes, from = append(wishes, wish), append(from, i)
	}
	return wishes, from, faults
}

// keyOf is where a refusal points: the card it is about, where there is one.
func keyOf(cfg *config.Config, i int, r plan.Refusal) string {
	if n := slices.Index(cfg.Models[i].GPUs, r.Card); n >= 0 && r.Card >= 0 {
		return modelKey(i, "gpus["+strconv.Itoa(n)+"]")
	}
	return modelKey(i, r.Key)
}

func modelKey(i int, key string) string { return "models[" + strconv.Itoa(i) + "]." + key }

// look finds the cards.
func (s *Survey) look(ctx context.Context, cfg *config.Config) {
	if s.probe == nil {
		s.cards, s.blind = hostAt(s.Root).List(ctx)
		return
	}
	s.cards, s.blind = setup.ListCards(ctx, hostAt(s.Root), cfg, s.probe)
}

func (s *Survey) machine() plan.Machine {
	m := plan.Machine{Cards: plan.Cards(s.cards)}
	if memory := hostAt(s.Root).Memory(context.Background()); memory != nil {
		m.Memory = *memory
	}
	return m
}

// wishOf says of a model what a plan wants to know. A file that cannot be read leaves it unknown, and is the error.
func wishOf(m engine.Model) (plan.Model, error) {
	memory := llama.MemoryOf(m)
	wish := plan.Model{
		Name: m.Name, Accel: m.Accel, Slots: m.Parallel, Context: m.Context, PromptCache: m.PromptCache,
		Key: gguf.CacheType(memory.Key), Value: gguf.CacheType(memory.Value),
		Shares: m.SplitWeights, Split: m.SplitMode, ByHand: memory.ByHand,
	}
	for _, b := range m.Backends {
		wish.Groups = append(wish.Groups, slices.Clone(b.GPUs))
	}
	for _, file := range memory.Files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			wish.Extra += min(info.Size(), 1<<50) // a sparse file claims what it likes
		}
	}
	file, err := gguf.Read(m.Path)
	if err == nil {
		wish.File = file
	}
	return wish, err
}
