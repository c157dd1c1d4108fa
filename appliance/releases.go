package appliance

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/releases"
	"viiwork/appliance/status"
	"viiwork/update"
)

// mountReleases adds what members ask for to update themselves from here, and by what this machine's own 'update' asks them.
func (a *Appliance) mountReleases(e *echo.Echo) {
	give := a.amongFellows(func(f *fellows) http.Handler { return f.shelf })
	e.GET(releases.ListPath, give)
	e.GET(releases.PiecePath, give)
	e.GET("/api/releases", a.trusted(a.getReleases))
	e.POST("/api/releases/fetch", a.trusted(a.fetchRelease))
}

// shelf gives what was fetched here to members.
func (a *Appliance) shelf(f *fellows) *releases.Server {
	return releases.NewServer(releases.ServerConfig{
		Shelf: update.OpenShelf(a.current().Node.StateDir), Verifier: f.verifier,
		Member: func(id string) bool {
			return slices.ContainsFunc(others(f), func(m mesh.Member) bool { return m.ID == id })
		},
	})
}

// others are the living members without this node.
func others(f *fellows) []mesh.Member {
	return slices.DeleteFunc(alive(f.cluster), func(m mesh.Member) bool { return m.ID == f.id })
}

// fetcher asks members for what they have fetched; nil = this node has no place in the mesh yet.
func (a *Appliance) fetcher() *releases.Fetcher {
	f := a.mesh.current()
	if f == nil {
		return nil
	}
	return releases.NewFetcher(releases.FetcherConfig{
		Shelf: update.OpenShelf(a.current().Node.StateDir), Client: f.client, Members: func() []mesh.Member { return others(f) },
	})
}

// getReleases tells what members have. Nothing of it has been verified.
func (a *Appliance) getReleases(c echo.Context) error {
	f := a.fetcher()
	if f == nil {
		return errNotInMesh
	}
	all, err := f.Offers(c.Request().Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []update.Offered{}
	}
	return c.JSON(http.StatusOK, all)
}

// fetchRelease puts a part on this node's shelf from whichever member has it.
func (a *Appliance) fetchRelease(c echo.Context) error {
	var want status.ReleaseFetch
	if err := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, 1<<10)).Decode(&want); err != nil || want.Digest == "" || want.Size < 1 {
		return &gateway.Error{Status: http.StatusBadRequest, Code: "invalid_json", Message: `the body must be {"digest":"sha256:…","size":…}`}
	}
	f := a.fetcher()
	if f == nil {
		return errNotInMesh
	}
	err := f.Fetch(c.Request().Context(), want.Digest, want.Size)
	switch {
	case err == nil:
		a.log.Info("a part of a release came from a member", "digest", want.Digest, "bytes", want.Size)
		return c.NoContent(http.StatusNoContent)
	case errors.Is(err, fs.ErrNotExist):
		return &gateway.Error{Status: http.StatusNotFound, Code: "not_found", Message: "no member has it"}
	}
	return &gateway.Error{Status: http.StatusBadGateway, Code: "fetch_failed", Message: err.Error()}
}
