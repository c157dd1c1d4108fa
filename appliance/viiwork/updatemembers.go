package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"viiwork/appliance/status"
	"viiwork/update"
)

// members are the mesh's shelves of releases, asked by way of this machine's node: it alone can sign.
type members struct{ node *node }

func (m members) Offers(ctx context.Context) ([]update.Offered, error) {
	body, err := m.node.call(ctx, http.MethodGet, "/api/releases", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var all []update.Offered
	if err := json.NewDecoder(io.LimitReader(body, 64<<20)).Decode(&all); err != nil {
		return nil, fmt.Errorf("reading what members have: %w", err)
	}
	return all, nil
}

// Fetch has the node put it on its shelf, which is in the same state directory as this program's.
func (m members) Fetch(ctx context.Context, digest string, size int64) error {
	body, err := m.node.call(ctx, http.MethodPost, "/api/releases/fetch", status.ReleaseFetch{Digest: digest, Size: size})
	var no *refused
	if errors.As(err, &no) && no.status == http.StatusNotFound {
		return fmt.Errorf("fetching %s: %w", digest, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	return body.Close()
}
