package llama

import (
	"context"
	"encoding/json"
	"net/http"

	"viiwork/engine"
)

// Props asks /props. A server of another make gets asked for its models, some of which tell their context; what nobody
// says stays zero.
func (d *Dialect) Props(ctx context.Context, t engine.Target) (engine.Props, error) {
	a, err := d.get(ctx, t, "/props")
	if err != nil {
		return engine.Props{}, err
	}
	if a.status == http.StatusUnauthorized {
		return engine.Props{}, a.fault(t, "/props")
	}
	var props struct {
		Settings struct {
			Context count `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots count  `json:"total_slots"`
		Build string `json:"build_info"`
	}
	if a.status == http.StatusOK && json.Unmarshal(a.body, &props) == nil && props.Settings.Context > 0 {
		return engine.Props{
			Context: int(props.Settings.Context),
			Slots:   int(props.Slots),
			Build:   printable(props.Build, 64),
		}, nil
	}
	return d.foreignProps(ctx, t)
}

// foreignProps reads the context from /v1/models: llama-server's own meta, or the name other servers use.
func (d *Dialect) foreignProps(ctx context.Context, t engine.Target) (engine.Props, error) {
	a, err := d.get(ctx, t, "/v1/models")
	if err != nil {
		return engine.Props{}, err
	}
	var list struct {
		Data []struct {
			Meta struct {
				Context count `json:"n_ctx"`
			} `json:"meta"`
			MaxLen count `json:"max_model_len"`
		} `json:"data"`
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &list) != nil || len(list.Data) == 0 {
		return engine.Props{}, nil
	}
	first := list.Data[0]
	return engine.Props{Context: int(max(first.Meta.Context, first.MaxLen))}, nil
}
