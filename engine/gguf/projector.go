package gguf

import (
	"path/filepath"
	"regexp"
	"strings"
)

// IsProjectorName tells a projector from a model by its name, as everybody names them: mmproj-F16.gguf,
// mmproj-gemma-3-12b-it-f16.gguf.
func IsProjectorName(path string) bool {
	return strings.Contains(strings.ToLower(filepath.Base(path)), "mmproj")
}

var precision = regexp.MustCompile(`(?i)^(f16|f32|bf16|fp16|fp32|q[2-8](_[0-9k](_[sml])?)?)$`)

// ProjectorFor picks, of the files beside a model, the projector that goes with it: the one whose name, without mmproj
// and precision, begins the model's name, the longest such; else one that has no name at all. "" = none.
func ProjectorFor(model string, beside []string) string {
	name := strings.ToLower(filepath.Base(model))
	best, longest := "", -1
	for _, path := range beside {
		if !IsProjectorName(path) || filepath.Dir(path) != filepath.Dir(model) || path == model {
			continue
		}
		if of := projected(path); strings.HasPrefix(name, of) && len(of) > longest {
			best, longest = path, len(of)
		}
	}
	return best
}

// projected is the model's name in a projector's, "" for a name that is only precision.
func projected(path string) string {
	stem := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gguf")
	stem = strings.Trim(strings.Replace(stem, "mmproj", "", 1), "-.")
	for stem != "" {
		at := strings.LastIndexAny(stem, "-.")
		if last := stem[at+1:]; !precision.MatchString(last) && stem != "model" {
			break
		}
		stem = strings.TrimRight(stem[:max(at, 0)], "-.")
	}
	return stem
}
