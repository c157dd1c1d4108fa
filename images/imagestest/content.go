package imagestest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Content is an image of this machine's platform, byte for byte.
type Content struct {
	Digest   string // of the manifest
	Manifest []byte
	Config   []byte
	Archives map[string][]byte // the layers, by digest
	Packed   map[string][]byte // the same as the registry has them, by digest
}

// Content reads an image that is there.
func (r *Registry) Content(image string) Content {
	r.t.Helper()
	img, err := remote.Image(r.tag(image), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		r.t.Fatal(err)
	}
	manifest, err := img.RawManifest()
	if err != nil {
		r.t.Fatal(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		r.t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		r.t.Fatal(err)
	}
	c := Content{Digest: sum(manifest), Manifest: manifest, Config: config, Archives: map[string][]byte{}, Packed: map[string][]byte{}}
	for _, layer := range layers {
		for _, form := range []struct {
			open func() (io.ReadCloser, error)
			all  map[string][]byte
		}{{layer.Uncompressed, c.Archives}, {layer.Compressed, c.Packed}} {
			from, err := form.open()
			if err != nil {
				r.t.Fatal(err)
			}
			b, err := io.ReadAll(from)
			if err = errors.Join(err, from.Close()); err != nil {
				r.t.Fatal(err)
			}
			form.all[sum(b)] = b
		}
	}
	return c
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}
