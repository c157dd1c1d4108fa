package wizard

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
)

// prove holds the configuration against the rules that the node itself will hold it against. Where the answers come from a
// file the faults are those of its lines.
func (d *Setup) prove(a Answers, s Sight) error {
	faults := a.misplaced(d, s)
	var environ []string
	if d.Secret != nil {
		environ = append(environ, d.Config.Mesh.SecretEnv+"="+base64.StdEncoding.EncodeToString(d.Secret))
	}
	path := cmp.Or(s.Path, s.Machine.Layout().Config)
	_, err := config.Parse(path, d.Config.Text(""), environ)
	var found config.Faults
	if err != nil && !errors.As(err, &found) {
		return err
	}
	for _, f := range found {
		faults = append(faults, a.places.Fault(answerOf(f.Key), "%s", f.Message))
	}
	if len(faults) == 0 {
		return nil
	}
	if faults[0].File != "" {
		return faults
	}
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Key + ": " + f.Message
	}
	return fmt.Errorf("these answers make no configuration that a node could use: %s", strings.Join(texts, "; "))
}

// misplaced names what no rule of a configuration is about: where things would go, and what would start the node.
func (a *Answers) misplaced(d *Setup, s Sight) (faults config.Faults) {
	for _, dir := range [][2]string{{"node.state_dir", d.Config.Node.StateDir}, {"models_dir", d.Config.ModelsDir}} {
		if !filepath.IsAbs(dir[1]) {
			faults = append(faults, a.places.Fault(dir[0], "%q is no whole path: write it from / on", dir[1]))
		}
	}
	if mac := s.OS == "darwin"; mac && a.Service == serviceSystemd || !mac && a.Service == serviceLaunchd {
		faults = append(faults, a.places.Fault("service", "this machine has no %s: leave service out, or write none", a.Service))
	}
	return faults
}

// answerOf is the key of the answers that says what key says in a configuration.
func answerOf(key string) string {
	entry, rest, isModel := strings.Cut(key, "].")
	switch {
	case isModel && rest == "path":
		return entry + "].file"
	case isModel && strings.HasPrefix(rest, "llamacpp."):
		return "engine." + strings.TrimPrefix(rest, "llamacpp.")
	case strings.HasPrefix(key, "mesh.tailnet."):
		return "mesh." + strings.TrimPrefix(key, "mesh.tailnet.")
	case strings.HasPrefix(key, "mesh.lan."):
		return "mesh." + strings.TrimPrefix(key, "mesh.lan.")
	case key == "mesh.open":
		return "mesh.start"
	}
	return key
}

// writable refuses places whose names would break out of the lines of the files that name them, or overwrite each other.
func writable(files []setup.File) error {
	seen := map[string]bool{}
	for _, f := range files {
		if !plainPath(f.Path) {
			return fmt.Errorf("%q cannot be written into a service: use a path of readable letters, without line breaks", f.Path)
		}
		if seen[f.Path] {
			return fmt.Errorf("%s is where two files would go: give the configuration another name (--config)", f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}

// plainPath reports whether a path can be written into a line of text and read from it again.
func plainPath(path string) bool {
	return utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool {
		return unicode.IsControl(r) || r == utf8.RuneError || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
	})
}
