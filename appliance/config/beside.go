package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// BesideName is the file of variables that belongs to a configuration and lies in its folder: the mesh's secret and the
// like, which have no place in a file that others may read.
const BesideName = "viiwork.env"

// maxBeside bounds that file: it holds a handful of lines.
const maxBeside = 64 << 10

// Beside adds to environ what the file of variables beside the configuration at path says, so that a command finds the
// secret where the service has it. What environ has already, empty or not, stays. There need be no such file. One that
// this user may not read is passed over: who only looks at a node needs no secret, and Load says what is missing.
func Beside(path string, environ []string) ([]string, error) {
	name := filepath.Join(filepath.Dir(path), BesideName)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return environ, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the variables beside the configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBeside+1))
	if err == nil && len(text) > maxBeside {
		err = fmt.Errorf("%s is over %d bytes: is it a file of variables?", name, maxBeside)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the variables beside the configuration: %w", err)
	}
	added, err := variables(name, string(text), newEnviron(environ))
	if err != nil {
		return nil, err
	}
	return append(added, environ...), nil
}

// variables reads NAME=value lines as systemd does for the same file. Of what environ says in one way nothing is added in
// the other: VIIWORK_MESH_SECRET and VIIWORK_MESH_SECRET_FILE are two ways to say one thing.
func variables(file, text string, environ map[string]string) (added []string, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !envWord.MatchString(name) {
			return nil, fmt.Errorf("%s:%d: this line is no NAME=value: mend or remove it", file, number)
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		base := strings.TrimSuffix(name, fileSuffix)
		if _, said := environ[base]; said {
			continue
		}
		if _, said := environ[base+fileSuffix]; !said {
			added = append(added, name+"="+value)
		}
	}
	return added, nil
}
