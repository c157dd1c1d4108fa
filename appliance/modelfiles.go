package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"viiwork/appliance/status"
	"viiwork/engine/gguf"
	"viiwork/engine/plan"
)

// Bounds of a look through models_dir. A folder that has more is named.
const (
	maxModelFiles  = 10_000
	maxModelDepth  = 24
	modelFileHands = 4 // files read at a time: more would only make a hard disk seek
)

// laterShard is a part of a model that its first part stands for.
var laterShard = regexp.MustCompile(`-([0-9]{5})-of-[0-9]{5}\.gguf$`)

// ModelFiles lists every model file below dir by its path, with what would be proposed for each alone on this machine. What
// cannot be read is in the list, with the reason; only dir itself not being there is an error.
func (s *Survey) ModelFiles(ctx context.Context, dir string) ([]status.ModelFile, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("listing the models: %w: set models_dir, or let this user read it", err)
	}
	s.look(ctx, nil)
	w := &shelf{seen: map[string]bool{}}
	w.folder(ctx, dir, 0)
	machine := s.machine()
	var projectors []string
	for _, path := range w.paths {
		if gguf.IsProjectorName(path) {
			projectors = append(projectors, path)
		}
	}
	list := make([]status.ModelFile, len(w.paths))
	var hands sync.WaitGroup
	next := make(chan int)
	for range modelFileHands {
		hands.Go(func() {
			for i := range next {
				list[i] = modelFile(machine, w.paths[i], projectors)
			}
		})
	}
	for i := range w.paths {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	hands.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing the models: %w", err)
	}
	list = append(list, w.faults...)
	slices.SortFunc(list, func(a, b status.ModelFile) int { return cmp.Compare(a.Path, b.Path) })
	return list, nil
}

// shelf is a walk through folders. Links are followed, since many keep their models elsewhere; a folder is entered once.
type shelf struct {
	seen   map[string]bool // folders by their real path
	paths  []string
	faults []status.ModelFile
	full   bool
}

func (w *shelf) fault(path, format string, args ...any) {
	if len(w.faults) < maxModelFiles {
		w.faults = append(w.faults, status.ModelFile{Path: path, Error: fmt.Sprintf(format, args...)})
	}
}

func (w *shelf) folder(ctx context.Context, dir string, depth int) {
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case err != nil:
		w.fault(dir, "cannot be followed: %v", reasonOf(err))
		return
	case w.seen[real]:
		w.fault(dir, "leads to a folder that is listed already")
		return
	case depth > maxModelDepth:
		w.fault(dir, "lies more than %d folders deep: move it up", maxModelDepth)
		return
	}
	w.seen[real] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.fault(dir, "cannot be listed: %v: let this user read it", reasonOf(err))
	}
	for _, e := range entries {
		if ctx.Err() != nil || w.full {
			return
		}
		w.entry(ctx, filepath.Join(dir, e.Name()), e, depth)
	}
}

func (w *shelf) entry(ctx context.Context, path string, e fs.DirEntry, depth int) {
	model := strings.EqualFold(filepath.Ext(path), ".gguf")
	isDir := e.IsDir()
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			if model || !errors.Is(err, fs.ErrNotExist) {
				w.fault(path, "is a link that cannot be followed: %v", reasonOf(err))
			}
			return
		}
		isDir = info.IsDir()
	}
	switch {
	case isDir:
		w.folder(ctx, path, depth+1)
	case !model:
	case len(w.paths) >= maxModelFiles:
		w.full = true
		w.fault(path, "and what follows is left out: there are more than %d model files", maxModelFiles)
	default:
		if m := laterShard.FindStringSubmatch(path); m == nil || m[1] == "00001" {
			w.paths = append(w.paths, path)
		}
	}
}

// reasonOf is the system's word without the path.
func reasonOf(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// modelFile is one line of the list.
func modelFile(machine plan.Machine, path string, projectors []string) status.ModelFile {
	f := status.ModelFile{Path: path}
	file, err := gguf.Read(path)
	if err != nil {
		f.Error = strings.TrimPrefix(err.Error(), path+" ") // it stands before it anyway
		return f
	}
	f.Architecture, f.Quantisation, f.Size, f.Context = file.Architecture, file.Quantisation, file.Size, file.Context
	switch {
	case file.Projector, gguf.IsProjectorName(path):
		f.Kind, f.Text = "projector", "goes with a model: --mmproj in its args"
		return f
	case file.Architecture == "":
		f.Text = "its file is newer than this program: whether it fits is not known"
		return f
	case file.Rerank:
		f.Kind = "rerank"
	case file.Embedding:
		f.Kind = "embedding"
	default:
		f.Kind = "chat"
	}
	wish := plan.Model{Name: filepath.Base(path), File: file}
	if f.Projector = gguf.ProjectorFor(path, projectors); f.Projector != "" {
		if info, err := os.Stat(f.Projector); err == nil {
			wish.Extra = info.Size()
		}
	}
	p := plan.Propose(machine, []plan.Model{wish})
	fits := len(p.Models) > 0
	if fits || machine.Memory > 0 {
		f.Fits = &fits
	}
	for _, r := range p.Refusals {
		f.Text = r.Text
	}
	for _, m := range p.Models {
		f.Backends, f.Parallel, f.SlotContext, f.Text = len(m.Groups), m.Slots, m.Context, p.Sentence(m)
		for _, group := range m.Groups {
			if len(group) > 0 {
				f.GPUs = append(f.GPUs, group)
			}
		}
	}
	return f
}
