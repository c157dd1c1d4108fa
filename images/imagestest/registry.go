// Package imagestest is a registry of images on loopback that behaves, or misbehaves on demand: it lies about what a digest
// stands for, cuts transfers half-way, and moves tags.
//
// Docker fetches from it as from any other: addresses of 127.0.0.0/8 need no TLS. A [Registry] may be used from any
// goroutine; it ends with its test.
package imagestest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is one that runs.
type Registry struct {
	Host string // 127.0.0.1:port

	LieManifests atomic.Bool  // a manifest asked for by digest is another one
	LieLayers    atomic.Bool  // layers have one bit turned
	Full         atomic.Bool  // there is no more of anything: 429
	Cut          atomic.Int64 // how many more layers break off half-way

	t       testing.TB
	content http.Handler
}

// New starts an empty one.
func New(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{t: t, content: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = server.Listener.Addr().String()
	return r
}

// Ref names an image here: "engine:v1".
func (r *Registry) Ref(image string) string { return r.Host + "/" + image }

// Random puts an image of three layers of random bytes under a name and returns its digest. Another one that had the name
// loses it, but can still be had by its digest.
func (r *Registry) Random(image string) string {
	r.t.Helper()
	img, err := random.Image(256<<10, 3)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.push(image, r.forHere(img))
}

// Index is Random with a second platform beside this machine's; the digest is that of the list of both.
func (r *Registry) Index(image string) string {
	r.t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, arch := range []string{"s390x", runtime.GOARCH} {
		img, err := random.Image(32<<10, 2)
		if err != nil {
			r.t.Fatal(err)
		}
		img = r.configured(img, arch)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	if err := remote.WriteIndex(r.tag(image), index); err != nil {
		r.t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		r.t.Fatal(err)
	}
	return digest.String()
}

// Claiming puts a manifest under a name whose two layers claim so many bytes each, and returns its digest. Nobody has the layers.
func (r *Registry) Claiming(image string, bytes int64) string {
	r.t.Helper()
	img, err := random.Image(1<<10, 2)
	if err != nil {
		r.t.Fatal(err)
	}
	doc, err := r.forHere(img).Manifest()
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range doc.Layers {
		doc.Layers[i].Size = bytes
	}
	text, err := json.Marshal(doc)
	if err != nil {
		r.t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(image, ":")
	put := httptest.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, strings.NewReader(string(text)))
	put.Header.Set("Content-Type", string(doc.MediaType))
	if honest := r.record(put); honest.Code != http.StatusCreated {
		r.t.Fatalf("%d %s", honest.Code, honest.Body)
	}
	return sum(text)
}

// Saved puts an image there that 'docker save' wrote to a file. Its layers are packed without being made smaller: that would
// take longer than the tests that want it.
func (r *Registry) Saved(image, file string) string {
	r.t.Helper()
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		r.t.Fatal(err)
	}
	stored := empty.Image
	for _, layer := range layers {
		wrapped, err := tarball.LayerFromOpener(layer.Uncompressed, tarball.WithCompressionLevel(gzip.NoCompression))
		if err != nil {
			r.t.Fatal(err)
		}
		if stored, err = mutate.AppendLayers(stored, wrapped); err != nil {
			r.t.Fatal(err)
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		r.t.Fatal(err)
	}
	if stored, err = mutate.ConfigFile(stored, config); err != nil {
		r.t.Fatal(err)
	}
	return r.push(image, stored)
}

func (r *Registry) push(image string, img v1.Image) string {
	r.t.Helper()
	if err := remote.Write(r.tag(image), img); err != nil {
		r.t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		r.t.Fatal(err)
	}
	return digest.String()
}

func (r *Registry) tag(image string) name.Tag {
	r.t.Helper()
	tag, err := name.NewTag(r.Ref(image))
	if err != nil {
		r.t.Fatal(err)
	}
	return tag
}

// forHere makes an image one of this machine's platform: Docker takes no other.
func (r *Registry) forHere(img v1.Image) v1.Image { return r.configured(img, runtime.GOARCH) }

func (r *Registry) configured(img v1.Image, arch string) v1.Image {
	r.t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		r.t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		r.t.Fatal(err)
	}
	return img
}

// ServeHTTP is the registry, and what it does wrong.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	get := req.Method == http.MethodGet
	isLayer := get && strings.Contains(req.URL.Path, "/blobs/")
	switch {
	case r.Full.Load() && get:
		w.WriteHeader(http.StatusTooManyRequests)
	case r.LieManifests.Load() && get && strings.Contains(req.URL.Path, "/manifests/sha256:"):
		r.lie(w, req, func(text []byte) []byte { return append(text, ' ') })
	case isLayer && r.LieLayers.Load():
		r.lie(w, req, func(text []byte) []byte {
			if text[0] != '{' { // a configuration, which is no layer
				text[len(text)/2] ^= 1
			}
			return text
		})
	case isLayer && r.Cut.Load() > 0:
		r.cut(w, req)
	default:
		r.content.ServeHTTP(w, req)
	}
}

// lie answers as the registry does, with other bytes.
func (r *Registry) lie(w http.ResponseWriter, req *http.Request, change func([]byte) []byte) {
	honest := r.record(req)
	text := change(honest.Body.Bytes())
	for key, values := range honest.Header() {
		w.Header()[key] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(honest.Code)
	_, _ = w.Write(text)
}

// cut sends half of a layer and drops the connection, as often as asked; what is no layer passes whole.
func (r *Registry) cut(w http.ResponseWriter, req *http.Request) {
	honest := r.record(req)
	text := honest.Body.Bytes()
	if len(text) == 0 || text[0] == '{' || !r.takeCut() {
		r.lie(w, req, func(text []byte) []byte { return text })
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(honest.Code)
	_, _ = w.Write(text[:len(text)/2])
	panic(http.ErrAbortHandler)
}

// takeCut is one act: layers are fetched side by side.
func (r *Registry) takeCut() bool {
	for {
		left := r.Cut.Load()
		if left <= 0 {
			return false
		}
		if r.Cut.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

func (r *Registry) record(req *http.Request) *httptest.ResponseRecorder {
	honest := httptest.NewRecorder()
	honest.Body = new(bytes.Buffer)
	r.content.ServeHTTP(honest, req)
	return honest
}
