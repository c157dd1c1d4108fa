package wizard

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"viiwork/appliance/config"
	"viiwork/engine/gguf"
)

// pick is a file that is to be served.
type pick struct {
	answer    ModelAnswer
	name      string
	path      string // absolute
	file      gguf.File
	projector string // beside it; "" = none
	extra     int64  // its bytes
}

// picks reads the files that were chosen.
func (a *Answers) picks(dir string) (picks []pick, faults config.Faults) {
	names := map[string]int{}
	for i, m := range a.Models {
		p := pick{answer: m, name: m.Name, path: m.File}
		if !filepath.IsAbs(p.path) {
			p.path = filepath.Join(dir, p.path)
		}
		if !plainPath(p.path) {
			faults = append(faults, a.places.Fault(fmt.Sprintf("models[%d].file", i), "%q holds letters that no configuration can: rename the file", p.path))
			continue
		}
		var err error
		if p.file, err = gguf.Read(p.path); err != nil {
			faults = append(faults, a.places.Fault(fmt.Sprintf("models[%d].file", i), "%v", err))
			continue
		}
		if p.file.Projector || gguf.IsProjectorName(p.path) {
			faults = append(faults, a.places.Fault(fmt.Sprintf("models[%d].file", i), "this is a projector, no model: name the model it belongs to"))
			continue
		}
		if p.name == "" {
			p.name = NameOf(p.path)
		}
		if before, taken := names[p.name]; taken {
			faults = append(faults, a.places.Fault(fmt.Sprintf("models[%d]", i), "models[%d] is called %s as well: give one of them a name of its own", before, p.name))
		}
		names[p.name] = i
		p.findProjector()
		picks = append(picks, p)
	}
	return picks, faults
}

// findProjector looks for the file that lets the model see, beside it.
func (p *pick) findProjector() {
	beside, _ := filepath.Glob(filepath.Join(filepath.Dir(p.path), "*.gguf"))
	var projectors []string
	for _, path := range beside {
		if gguf.IsProjectorName(path) {
			projectors = append(projectors, path)
		}
	}
	path := gguf.ProjectorFor(p.path, projectors)
	if info, err := os.Stat(path); path != "" && err == nil {
		p.projector, p.extra = path, info.Size()
	}
}

// args is what an engine is told beside what the configuration has keys for.
func (p *pick) args() []string {
	if len(p.answer.Args) > 0 {
		return p.answer.Args
	}
	switch {
	case p.file.Rerank:
		return []string{"--reranking"}
	case p.file.Embedding:
		return []string{"--embeddings"}
	case p.projector != "":
		return []string{"--mmproj", p.projector}
	}
	return nil
}

var (
	shardPart = regexp.MustCompile(`-[0-9]{5}-of-[0-9]{5}$`)
	weightsAs = regexp.MustCompile(`(?i)[-._](?:UD[-._])?(?:I?Q[0-9][0-9A-Z_]*|BF16|F16|F32|FP16|MXFP4(?:_MOE)?|TQ[0-9]_[0-9])$`)
	notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// NameOf makes a model's name of its file's: without what says how its weights are kept, since a request asks for a model
// and not for a file.
func NameOf(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	name = shardPart.ReplaceAllString(name, "")
	name = weightsAs.ReplaceAllString(name, "")
	if name = strings.Trim(notInName.ReplaceAllString(name, "-"), "-."); name == "" {
		return "model"
	}
	return name
}
