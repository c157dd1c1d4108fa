package papers

import (
	"encoding/json"
	"maps"
	"slices"
)

// program is what of a configuration says what runs, and how.
type program struct {
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string
	WorkingDir string
	Shell      []string
	Labels     map[string]string
}

// Runs tells whether a program as Docker describes it (Config in 'docker inspect') is what the image's own configuration says.
func (i *Image) Runs(config []byte) bool {
	var ours struct{ Config program }
	var told program
	if json.Unmarshal(i.config, &ours) != nil || json.Unmarshal(config, &told) != nil {
		return false
	}
	is := ours.Config
	return is.User == told.User && is.WorkingDir == told.WorkingDir && slices.Equal(is.Env, told.Env) && slices.Equal(is.Entrypoint, told.Entrypoint) &&
		slices.Equal(is.Cmd, told.Cmd) && slices.Equal(is.Shell, told.Shell) && maps.Equal(is.Labels, told.Labels)
}
