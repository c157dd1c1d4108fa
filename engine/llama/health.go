package llama

import (
	"context"
	"net/http"

	"viiwork/engine"
)

// Check asks /health, which needs neither key nor slot. Servers of other makes that have no such route are asked for
// their models instead.
func (d *Dialect) Check(ctx context.Context, t engine.Target) (engine.Health, error) {
	path := "/health"
	a, err := d.get(ctx, t, path)
	if err == nil && a.status >= 400 && a.status < 500 {
		path = "/v1/models"
		a, err = d.get(ctx, t, path)
	}
	switch {
	case err != nil:
		return engine.Health{Progress: -1}, err
	case a.status == http.StatusOK:
		return engine.Health{Ready: true, Progress: 1}, nil
	case a.status == http.StatusServiceUnavailable:
		return engine.Health{Progress: -1}, nil
	}
	return engine.Health{Progress: -1}, a.fault(t, path)
}
