package appliance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/status"
	"viiwork/update"
	"viiwork/update/build"
	"viiwork/update/updatetest"
)

// shelves are what the node's members have, asked by way of the node's socket as 'viiwork update' does.
type shelves struct {
	t testing.TB
	f *fellow
}

func (s shelves) Offers(context.Context) (all []update.Offered, err error) {
	got := s.f.owner(s.t, http.MethodGet, "/api/releases", "")
	return all, json.Unmarshal([]byte(got.body), &all)
}

func (s shelves) Fetch(_ context.Context, digest string, size int64) error {
	body, _ := json.Marshal(status.ReleaseFetch{Digest: digest, Size: size})
	switch got := s.f.owner(s.t, http.MethodPost, "/api/releases/fetch", string(body)); got.status {
	case http.StatusNoContent:
		return nil
	case http.StatusNotFound:
		return fs.ErrNotExist
	default:
		return fmt.Errorf("%d %s", got.status, got.body)
	}
}

// TestAReleaseComesFromAnotherNode of a secured mesh when the registry is gone, and is verified as if it came from there.
func TestAReleaseComesFromAnotherNode(t *testing.T) {
	t.Parallel()
	has, asks := lanFellow(t, 30), lanFellow(t, 31)
	asks.seeds = []string{has.seed()}
	sig, reg, dir := updatetest.New(t), updatetest.NewRegistry(t), t.TempDir()
	program := bytes.Repeat([]byte("viiwork "), 1<<18)
	rel := build.Release{Version: "v1.2.3", Commit: swapCommit, Built: time.Unix(1e9, 0), Publisher: swapPublisher}
	index, _, err := build.Layout(dir, rel, map[string][]byte{"linux/amd64": program})
	if err != nil {
		t.Fatal(err)
	}
	by := updatetest.Run("owner/viiwork", "v1.2.3", swapCommit)
	proof := sig.Sign(updatetest.Signing{Identity: by, Statement: updatetest.Provenance(by, map[string]string{"index": strings.TrimPrefix(index, "sha256:")}).JSON(t)})
	if _, err := update.Publish(t.Context(), update.Publication{Dir: dir, Version: "v1.2.3", Repository: reg.Name, Bundles: [][]byte{proof}, Transport: reg}); err != nil {
		t.Fatal(err)
	}
	fetch := func(f *fellow) {
		t.Helper()
		u, err := update.New(update.Config{
			Publisher: swapPublisher, Version: "v1.0.0", Source: reg.Name, StateDir: filepath.Join(f.dir, "state"), Transport: reg,
			Trust: update.TrustConfig{Root: sig.Root(), Mirror: "http://tuf.example", Transport: reg}, Members: shelves{t, f},
		})
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := u.Find(t.Context(), "v1.2.3", false)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := found.Program(t.Context(), "linux/amd64", &got); err != nil || !bytes.Equal(got.Bytes(), program) {
			t.Fatalf("%d bytes, %v", got.Len(), err)
		}
	}
	for _, f := range []*fellow{has, asks} {
		f.secret = rightSecret
		f.here(t)
	}
	holds(t, "they know each other", func() bool { return asks.member(has.name) == "alive" && has.member(asks.name) == "alive" })
	fetch(has)
	reg.Refuse.Store(http.StatusForbidden)
	fetch(asks)
	for _, path := range []string{"/v1/releases", "/v1/releases/piece?digest=" + index + "&from=0&size=1", "/api/releases"} {
		answer, err := quick.Get(has.url() + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s from a stranger: %d", path, answer.StatusCode)
		}
	}
}
