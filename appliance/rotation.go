package appliance

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/serf"
)

// newRotation is the node's part in replacing the secret of the mesh.
func (m *membership) newRotation(f *fellows) *mesh.Rotation {
	return mesh.NewRotation(mesh.RotationConfig{
		ID: f.id, Name: m.cfg.Node.Name, Secret: m.secret, Enforce: m.cfg.Mesh.SecretEnforce, Keys: m.keys, Gossip: f.cluster,
		Client: f.client, Verifier: f.verifier, Members: func() (alive, failed, left []mesh.Member) { return byState(f.cluster) }, Log: m.log,
	})
}

// byState sorts the members by what gossip holds them for.
func byState(c *serf.Cluster) (alive, failed, left []mesh.Member) {
	for _, s := range c.Members() {
		m := mesh.Member{ID: s.ID, Name: s.Name, Addr: s.API.String(), Version: s.Version}
		switch s.State {
		case serf.StateAlive:
			alive = append(alive, m)
		case serf.StateFailed:
			failed = append(failed, m)
		default:
			left = append(left, m)
		}
	}
	return alive, failed, left
}

// mountSecret adds what members say of the secret, and the command that replaces it.
func (a *Appliance) mountSecret(e *echo.Echo) {
	e.POST("/v1/secret", a.amongFellows(func(f *fellows) http.Handler { return f.rotation }))
	e.POST("/api/secret/rotate", a.trusted(a.postRotate))
}

// postRotate replaces the secret, or finishes it, and tells each step as a line of JSON. What comes after the first line is
// told in a line, too: the status line has gone.
func (a *Appliance) postRotate(c echo.Context) error {
	f := a.mesh.current()
	switch {
	case !a.mesh.keys.Load().Secured():
		return notRotated(mesh.ErrNoSecret)
	case f == nil:
		return errNotInMesh
	}
	out := flushed{Response: c.Response()}
	write := func(line status.Rotation) {
		if !c.Response().Committed {
			c.Response().Header().Set(echo.HeaderContentType, "application/x-ndjson")
		}
		_ = json.NewEncoder(out).Encode(line) // who asked may have gone; the replacement goes on
	}
	done, err := f.rotation.Rotate(c.Request().Context(), func(p mesh.Progress) {
		write(status.Rotation{Member: p.Member, Step: p.Step, Fault: p.Fault})
	})
	switch {
	case errors.Is(err, mesh.ErrNotRotated):
		return notRotated(err)
	case err != nil:
		write(status.Rotation{Error: err.Error()})
	default:
		write(status.Rotation{Done: &status.Rotated{Generation: done.Generation, Members: done.Members, Away: done.Away, Left: done.Left}})
	}
	return nil
}

func notRotated(err error) error {
	return &gateway.Error{Status: http.StatusConflict, Type: "invalid_request_error", Code: "not_rotated", Message: err.Error()}
}
