package updatetest

import (
	"context"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is a registry of images, reached without a network: it is its own transport. It speaks for one host
// name, whatever that is.
type Registry struct {
	Name string // of its one repository, as a source has it

	NoReferrers atomic.Bool                   // it knows no referrers API, as some do not: the tag that stands for it does
	Hide        atomic.Bool                   // its referrers API says that there are none
	Drip        atomic.Bool                   // a byte a second
	Refuse      atomic.Int64                  // a status to answer all with; 0 = none
	Swap        atomic.Pointer[func() []byte] // what comes in place of a layer

	content http.Handler
}

// NewRegistry makes an empty one.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	return &Registry{
		Name:    "registry.example/owner/viiwork",
		content: registry.New(registry.WithReferrersSupport(true), registry.WithBlobHandler(registry.NewDiskBlobHandler(t.TempDir())), registry.Logger(stdlog.New(io.Discard, "", 0))),
	}
}

// RoundTrip is a request of a registry's client.
func (r *Registry) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	isLayer := strings.Contains(req.URL.Path, "/blobs/") && req.Method == http.MethodGet
	switch referrers := strings.Contains(req.URL.Path, "/referrers/"); {
	case r.Refuse.Load() != 0:
		w.WriteHeader(int(r.Refuse.Load()))
	case referrers && r.NoReferrers.Load():
		w.WriteHeader(http.StatusNotFound)
	case referrers && r.Hide.Load():
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		_, _ = io.WriteString(w, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
	case isLayer && r.Swap.Load() != nil:
		_, _ = w.Write((*r.Swap.Load())())
	default:
		inner := req.Clone(req.Context())
		if inner.Body == nil {
			inner.Body = http.NoBody
		}
		r.content.ServeHTTP(w, inner)
	}
	answer := w.Result()
	answer.Request = req
	if r.Drip.Load() {
		answer.Body = &dripping{req.Context(), answer.Body}
	}
	return answer, nil
}

// dripping is a body that comes byte by byte.
type dripping struct {
	ctx context.Context
	io.ReadCloser
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
	}
	if len(p) > 1 {
		p = p[:1]
	}
	return d.ReadCloser.Read(p)
}
