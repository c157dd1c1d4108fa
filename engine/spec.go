package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// fault is a failure that starting again does not mend; it is looked at again now and then, as the owner may mend it.
type fault struct{ err error }

func (f fault) Error() string { return f.err.Error() }
func (f fault) Unwrap() error { return f.err }

// plan is a backend ready to be started.
type plan struct {
	spec   Spec
	key    string
	newKey bool // made just now: no living process can know it
}

// prepare works out how the backend is to be started, and sets up its key and folders. Its errors are faults.
func (b *backend) prepare(ctx context.Context, r Runner) (plan, error) {
	e, m := b.engine, b.model
	file, err := modelFile(m.Path)
	if err != nil {
		return plan{}, err
	}
	if e.cfg.CheckFile != nil {
		if err := e.cfg.CheckFile(m); err != nil {
			return plan{}, err
		}
	}
	build, identity, err := e.probes.build(ctx, r, e.cfg.Dialect, m)
	if err != nil {
		return plan{}, err
	}
	e.mu.Lock()
	b.build = build.Version
	e.mu.Unlock()
	home, err := e.makeHome(b.name)
	if err != nil {
		return plan{}, err
	}
	e.clearSlots(home.slotDir)
	args, err := e.cfg.Dialect.Flags(build, Options{
		Model: m, GPUs: b.gpus, KeyFile: home.keyFile, SlotDir: home.slotDir, Threads: b.threads(),
	})
	if err != nil {
		return plan{}, err
	}
	spec := Spec{
		Backend: b.name, Model: m, GPUs: slices.Clone(b.gpus), Args: args, Bind: e.cfg.Dialect.Bind, Env: maps.Clone(m.Env),
		KeyFile: home.keyFile, SlotDir: home.slotDir, ReadOnly: file.dirs,
	}
	b.keepTraits(build, spec)
	spec.Hash, err = digest(spec, identity, file)
	return plan{spec: spec, key: home.key, newKey: home.newKey}, err
}

// keepTraits notes what the engine is told about slot files. A build that knows no flag for their folder keeps none.
func (b *backend) keepTraits(build Build, spec Spec) {
	var traits KVTraits
	if d, can := b.engine.cfg.Dialect.(SlotFiles); can {
		traits = d.Traits(build, spec.Args, spec.Env)
	}
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.slotDir, b.traits = "", traits
	if slices.Contains(spec.Args, spec.SlotDir) {
		b.slotDir = spec.SlotDir
	}
}

// threads shares this machine's CPUs over the model's backends when they have no cards.
func (b *backend) threads() int {
	if b.model.Threads > 0 || len(b.gpus) > 0 || b.model.Accel != AccelNone {
		return b.model.Threads
	}
	return max(1, runtime.NumCPU()/max(1, len(b.model.Backends)))
}

// modelAt is what a model file looks like from outside.
type modelAt struct {
	size, mtime int64
	dirs        []string // folders the engine must be able to read
}

// modelFile looks at a model file before an engine does, whose own words would be harder to understand.
func modelFile(path string) (modelAt, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return modelAt{}, fmt.Errorf("model file %s is missing: put it there, or correct the model's path", path)
	case errors.Is(err, fs.ErrPermission):
		return modelAt{}, fmt.Errorf("model file %s cannot be read: allow this user to read it and its folders", path)
	case err != nil:
		return modelAt{}, fmt.Errorf("opening the model file: %w: correct the model's path", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return modelAt{}, fmt.Errorf("opening the model file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return modelAt{}, fmt.Errorf("model path %s is not a file: name the .gguf file itself", path)
	}
	at := modelAt{size: info.Size(), mtime: info.ModTime().UnixNano(), dirs: []string{filepath.Dir(path)}}
	// A link may lead out of the folder; inside a container both ends must be there.
	if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(at.dirs, filepath.Dir(real)) {
		at.dirs = append(at.dirs, filepath.Dir(real))
	}
	return at, nil
}

// digest of everything that makes two processes interchangeable.
func digest(s Spec, identity string, file modelAt) (string, error) {
	doc, err := json.Marshal(struct {
		Runner        RunnerKind
		Image, Binary string
		Identity      string
		Args          []string
		Env           map[string]string
		GPUs          []int
		Accel         Accel
		Path          string
		Size, MTime   int64
		SlotDir       string
		ReadOnly      []string
	}{
		s.Model.Runner, s.Model.Image, s.Model.Binary, identity, s.Args, s.Env, s.GPUs, s.Model.Accel,
		s.Model.Path, file.size, file.mtime, s.SlotDir, s.ReadOnly,
	})
	if err != nil {
		return "", fmt.Errorf("describing the backend: %w", err)
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:]), nil
}
