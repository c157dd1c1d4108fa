package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
)

// tellPull is how often a copy says how far it has come.
const tellPull = 500 * time.Millisecond

// maxPullBody is more than the longest names and a folder take.
const maxPullBody = 16 << 10

// postPull copies a model and tells how far it has come as lines of JSON. What goes wrong before the first line has a status of its own.
// A client that goes ends the copy; what has come is kept.
func (a *Appliance) postPull(c echo.Context) error {
	var want status.PullRequest
	if err := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, maxPullBody)).Decode(&want); err != nil || want.Node == "" || want.Model == "" || want.Rate < 0 {
		return &gateway.Error{Status: http.StatusBadRequest, Code: "invalid_json", Message: `the body must be {"node":"…","model":"…"}, and may have "as", "dir" and "rate"`}
	}
	r, err := a.pullRequest(want)
	if err != nil {
		return err
	}
	out := pullLines{c: c}
	done, err := a.copier.Pull(c.Request().Context(), r, out.progress)
	var refused *modelcopy.Refused
	switch {
	case err == nil:
		a.log.Info("a model was copied to this node", "model", done.Model, "from", r.From.Name, "dir", r.Dir)
		out.write(status.Pull{Done: pulled(done)})
	case c.Response().Committed:
		out.write(status.Pull{Error: err.Error(), Refused: errors.As(err, &refused)})
	case errors.As(err, &refused):
		return &gateway.Error{Status: http.StatusConflict, Code: "not_copied", Message: err.Error()}
	default:
		return &gateway.Error{Status: http.StatusBadGateway, Code: "copy_failed", Message: err.Error()}
	}
	return nil
}

// pullRequest finds the member, and the folder.
func (a *Appliance) pullRequest(want status.PullRequest) (modelcopy.Request, error) {
	r := modelcopy.Request{Model: want.Model, Dir: want.Dir, As: want.As, Rate: want.Rate}
	f := a.mesh.current()
	if f == nil {
		return r, errNotInMesh
	}
	if r.Dir == "" {
		r.Dir = a.current().ModelsDir
	}
	if !filepath.IsAbs(r.Dir) {
		return r, &gateway.Error{Status: http.StatusBadRequest, Code: "invalid_dir", Param: "dir", Message: "the folder must be a whole path"}
	}
	r.Dir, r.Client = filepath.Clean(r.Dir), f.client
	var names []string
	for _, m := range alive(f.cluster) {
		if m.ID == f.id {
			continue
		}
		if names = append(names, m.Name); m.Name == want.Node {
			r.From = m
		}
	}
	if r.From.ID == "" {
		slices.Sort(names)
		return r, &gateway.Error{Status: http.StatusNotFound, Code: "host_not_found", Param: "node",
			Message: fmt.Sprintf("no other living node is called %q: %s", want.Node, nodesThere(names))}
	}
	if target, led := a.mesh.aliases.Targets()[want.Model]; led && !a.gateway.Serves(want.Model) {
		r.Model = target
	}
	return r, nil
}

func nodesThere(names []string) string {
	if len(names) == 0 {
		return "this node is alone in its mesh now"
	}
	return "there are " + strings.Join(names, ", ")
}

// pullLines writes what happens, at most twice a second while it is more of the same.
type pullLines struct {
	c    echo.Context
	mu   sync.Mutex // guards what follows
	last modelcopy.Progress
	at   time.Time
}

func (l *pullLines) progress(p modelcopy.Progress) {
	l.mu.Lock()
	same := p.File == l.last.File && p.State == l.last.State && time.Since(l.at) < tellPull
	if !same {
		l.last, l.at = p, time.Now()
	}
	l.mu.Unlock()
	if !same {
		l.write(status.Pull{File: p.File, State: p.State, Bytes: p.Done, Size: p.Size})
	}
}

func (l *pullLines) write(line status.Pull) {
	if !l.c.Response().Committed {
		l.c.Response().Header().Set(echo.HeaderContentType, "application/x-ndjson")
	}
	_ = json.NewEncoder(flushed{Response: l.c.Response()}).Encode(line) // a client that goes ends the copy by its context
}

func pulled(c modelcopy.Copied) *status.Pulled {
	out := &status.Pulled{Model: c.Model, Digest: c.Digest}
	for _, f := range c.Files {
		out.Files = append(out.Files, status.PulledFile{Path: f.Path, Size: f.Size, SHA256: f.SHA256, MMProj: f.MMProj, Had: f.Had})
	}
	return out
}
