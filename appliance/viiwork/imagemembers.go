package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"viiwork/images"
	"viiwork/images/papers"
)

// imageMembers are the mesh's machines with their images, asked by way of this machine's node: it alone can sign.
type imageMembers struct{ node *node }

// Offers are none where no node runs.
func (m imageMembers) Offers(ctx context.Context, digest string) (all []images.Offer, err error) {
	err = m.ask(ctx, "/api/engineimages", url.Values{"digest": {digest}}, &all)
	var no coded
	if errors.As(err, &no) && no.code == exitNotRunning {
		return nil, nil
	}
	return all, err
}

func (m imageMembers) Parts(ctx context.Context, member, digest string) (parts []papers.Part, err error) {
	err = m.ask(ctx, "/api/engineimages/parts", url.Values{"node": {member}, "digest": {digest}}, &parts)
	return parts, err
}

func (m imageMembers) Piece(ctx context.Context, p images.Piece) ([]byte, error) {
	body, err := m.node.call(ctx, http.MethodGet, "/api/engineimages/piece?"+url.Values{
		"node": {p.Member}, "digest": {p.Image}, "layer": {p.Layer},
		"from": {strconv.FormatInt(p.From, 10)}, "size": {strconv.FormatInt(p.Size, 10)},
	}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, p.Size+1))
}

// ask reads an answer in JSON; eight members' papers are the longest.
func (m imageMembers) ask(ctx context.Context, path string, q url.Values, answer any) error {
	body, err := m.node.call(ctx, http.MethodGet, path+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, 64<<20)).Decode(answer); err != nil {
		return fmt.Errorf("reading what members have: %w", err)
	}
	return nil
}
