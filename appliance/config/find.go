package config

import (
	"fmt"
	"os"
	"strings"
)

// Find decides which file describes this machine: the one named by flag (--config), the one named by
// $VIIWORK_CONFIG, ./viiwork.yaml, /etc/viiwork/viiwork.yaml. A named one is taken at its word, even when it is missing.
func Find(flag string, getenv func(string) string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if path := getenv("VIIWORK_CONFIG"); path != "" {
		return path, nil
	}
	places := []string{"viiwork.yaml", "/etc/viiwork/viiwork.yaml"}
	for _, path := range places {
		// A file that is there but cannot be read is the right one: Load says why.
		if _, err := os.Stat(path); err == nil || os.IsPermission(err) {
			return path, nil
		}
	}
	return "", fmt.Errorf("finding the configuration: --config and $VIIWORK_CONFIG are not set, and there is no %s: "+
		"set this machine up with 'viiwork init', or name the file with --config", strings.Join(places, " and no "))
}
