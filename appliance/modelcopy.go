package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"golang.org/x/sys/unix"

	"viiwork/appliance/mesh"
	"viiwork/appliance/modelcopy"
	"viiwork/engine"
	"viiwork/engine/gguf"
)

func (a *Appliance) newCopier() *modelcopy.Copier {
	return modelcopy.NewCopier(modelcopy.CopierConfig{Digest: fileDigest, Free: freeAt, Busy: a.busy, Tailnet: a.cfg.Mesh.Network == "tailnet"})
}

// giver gives this node's models to members.
func (a *Appliance) giver(f *fellows) *modelcopy.Server {
	return modelcopy.NewServer(modelcopy.ServerConfig{
		Verifier: f.verifier, Find: a.findModel, Digest: fileDigest, Busy: a.busy,
		Member: func(id string) bool {
			return slices.ContainsFunc(alive(f.cluster), func(m mesh.Member) bool { return m.ID == id && id != f.id })
		},
	})
}

func (a *Appliance) busy() bool { return a.gateway.Inflight() > 0 }

// freeAt is how many bytes this user may write to a folder.
func freeAt(dir string) (int64, error) {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return 0, fmt.Errorf("asking how much of %s is free: %w", dir, err)
	}
	return int64(at.Bavail) * int64(at.Bsize), nil
}

// mountCopies adds what members ask for to copy a model, and the command that copies one.
func (a *Appliance) mountCopies(e *echo.Echo) {
	give := a.amongFellows(func(f *fellows) http.Handler { return f.giver })
	e.GET(modelcopy.ListPath, give)
	e.GET(modelcopy.PiecePath, give)
	e.GET(modelcopy.SumPath, give)
	e.POST("/api/models/pull", a.trusted(a.postPull))
}

// findModel says where a model's files are: one that is configured, with its projector, or any below models_dir.
func (a *Appliance) findModel(name string) (modelcopy.Source, error) {
	dir := a.current().ModelsDir
	src := modelcopy.Source{Dir: dir}
	path := ""
	for _, m := range a.engine.Snapshot() {
		if m.Model.Name != name {
			continue
		}
		if path = m.Model.Path; path == "" {
			return src, errors.New("a server that somebody else runs has the model, and this node no file of it")
		}
		if mmproj := projector(m.Model); mmproj != "" {
			rel, ok := below(dir, mmproj)
			if !ok {
				return src, errors.New("its projector (--mmproj) lies outside of models_dir there: move it, or ask for the model's file by its name")
			}
			src.MMProj = rel
		}
	}
	if path == "" {
		if !strings.HasSuffix(name, ".gguf") || !filepath.IsLocal(name) {
			return src, modelcopy.ErrNone
		}
		path = filepath.Join(dir, name)
	}
	rel, ok := below(dir, path)
	if !ok {
		return src, errors.New("its file lies outside of models_dir there, of which nothing is given away: move it")
	}
	if err := reachable(dir, rel); err != nil {
		return src, err
	}
	file, err := gguf.Read(path)
	if err != nil {
		return src, errors.New("its file is broken or not complete there: 'viiwork doctor' on that machine says what is wrong")
	}
	for _, shard := range file.Shards {
		rel, _ := below(dir, shard) // beside the first
		src.Shards = append(src.Shards, rel)
	}
	return src, nil
}

// below is a file's path from dir on, if it lies in it.
func below(dir, path string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// reachable looks at a file as it will be opened: without leaving dir by a symlink. So nobody learns what lies elsewhere.
func reachable(dir, rel string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return modelcopy.ErrNone
	}
	defer root.Close()
	if info, err := root.Stat(rel); err != nil || !info.Mode().IsRegular() {
		return modelcopy.ErrNone
	}
	return nil
}

// projector is the file that a model's args name for images and sound, "" if they name none.
func projector(m engine.Model) string {
	for i, arg := range m.Args {
		name, value, joined := strings.Cut(arg, "=")
		if name != "--mmproj" && name != "-mm" {
			continue
		}
		if !joined && i+1 < len(m.Args) {
			value = m.Args[i+1]
		}
		return value
	}
	return ""
}
