package papers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Bounds of what an image is said to be.
const (
	MaxDocument = 1 << 20 // bytes of each document; real ones have some thousand
	maxLayers   = 256     // twice as many as Docker makes
	maxBytes    = 1 << 44 // of an image: more than any has
)

// Papers are an image's documents, byte for byte.
type Papers struct {
	Index    []byte `json:"index,omitempty"` // over several platforms; none where the image was asked for by its manifest
	Manifest []byte `json:"manifest"`
	Config   []byte `json:"config"`
}

// Image is what papers have proved.
type Image struct {
	Config string // digest of the configuration: Docker's id of the image, where it does not keep images in containerd

	config []byte
	layers []layer // the lowest first
}

// layer is one by its two digests.
type layer struct {
	content string // of its archive, whatever it is compressed with
	blob    string // of what a registry has of it
	size    int64  // of the latter, in bytes
}

// Part is a layer as somebody gives it: its archive, or what a registry has of it.
type Part struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes
}

// Check holds the papers against a digest. They are an image for engines of this machine, or there is an error.
func (p Papers) Check(digest string) (*Image, error) {
	image, err := p.check(digest)
	if err != nil {
		return nil, fmt.Errorf("reading the papers of image %.80q: %w", digest, err)
	}
	return image, nil
}

func (p Papers) check(digest string) (*Image, error) {
	if len(p.Index) > MaxDocument || len(p.Manifest) > MaxDocument || len(p.Config) > MaxDocument {
		return nil, errors.New("a document of it is longer than any is")
	}
	if len(p.Index) > 0 {
		if digestOf(p.Index) != digest {
			return nil, errors.New("its index is another one")
		}
		var err error
		if digest, err = ofThisPlatform(p.Index); err != nil {
			return nil, err
		}
	}
	if digestOf(p.Manifest) != digest {
		return nil, errors.New("its manifest is another one")
	}
	var m v1.Manifest
	if err := json.Unmarshal(p.Manifest, &m); err != nil {
		return nil, errors.New("its manifest is none")
	}
	if digestOf(p.Config) != m.Config.Digest.String() {
		return nil, errors.New("its configuration is another one")
	}
	var c v1.ConfigFile
	if err := json.Unmarshal(p.Config, &c); err != nil {
		return nil, errors.New("its configuration is none")
	}
	if c.OS != "linux" || c.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("it is for %.30q, and not for linux/%s", c.OS+"/"+c.Architecture, runtime.GOARCH)
	}
	layers, err := layersOf(m, c)
	if err != nil {
		return nil, err
	}
	return &Image{Config: m.Config.Digest.String(), config: p.Config, layers: layers}, nil
}

// ofThisPlatform is what a registry's client would choose from an index: the first one for this platform.
func ofThisPlatform(index []byte) (digest string, err error) {
	var doc v1.IndexManifest
	if err := json.Unmarshal(index, &doc); err != nil {
		return "", errors.New("its index is none")
	}
	for _, m := range doc.Manifests {
		p := v1.Platform{OS: "linux", Architecture: "amd64"} // who names none means this
		if m.Platform != nil {
			p = *m.Platform
		}
		if p.OS == "linux" && p.Architecture == runtime.GOARCH {
			return m.Digest.String(), nil
		}
	}
	return "", fmt.Errorf("its index has none for linux/%s", runtime.GOARCH)
}

func layersOf(m v1.Manifest, c v1.ConfigFile) (all []layer, err error) {
	if n := len(m.Layers); n == 0 || n > maxLayers || n != len(c.RootFS.DiffIDs) {
		return nil, fmt.Errorf("it has %d layers, and its configuration tells of %d", n, len(c.RootFS.DiffIDs))
	}
	total := int64(0)
	for i, blob := range m.Layers {
		content := c.RootFS.DiffIDs[i]
		if blob.Digest.Algorithm != "sha256" || content.Algorithm != "sha256" {
			return nil, errors.New("a layer of it has no SHA-256")
		}
		if blob.Size < 1 || blob.Size > maxBytes || total > maxBytes-blob.Size {
			return nil, errors.New("its layers are larger than any image")
		}
		total += blob.Size
		all = append(all, layer{content: content.String(), blob: blob.Digest.String(), size: blob.Size})
	}
	return all, nil
}

// Wants tells whether a digest is that of a layer, in either form.
func (i *Image) Wants(digest string) bool {
	for _, l := range i.layers {
		if digest == l.content || digest == l.blob {
			return true
		}
	}
	return false
}

// Parts chooses, for each layer from the lowest on, a form of it of which has tells the size; its archive before what a
// registry has. The error says which layer there is none of.
func (i *Image) Parts(has func(digest string) (size int64, ok bool)) ([]Part, error) {
	var parts []Part
	for n, l := range i.layers {
		digest := l.content
		size, ok := has(digest)
		if !ok {
			digest = l.blob
			size, ok = has(digest)
		}
		if !ok {
			return nil, fmt.Errorf("there is nothing of layer %d", n+1)
		}
		parts = append(parts, Part{digest, size})
	}
	return parts, i.Match(parts)
}

// Match refuses parts that are not the image's layers, in their order, in sizes that they can have.
func (i *Image) Match(parts []Part) error {
	if len(parts) != len(i.layers) {
		return fmt.Errorf("%d layers in place of %d", len(parts), len(i.layers))
	}
	for n, p := range parts {
		l := i.layers[n]
		if p.Digest != l.content && p.Digest != l.blob {
			return fmt.Errorf("layer %d is another one", n+1)
		}
		if p.Size < 1 || p.Size > maxBytes || p.Digest == l.blob && p.Size != l.size {
			return fmt.Errorf("layer %d cannot have %d bytes", n+1, p.Size)
		}
	}
	if Total(parts) > maxBytes {
		return errors.New("its layers are larger than any image")
	}
	return nil
}

// Total is how many bytes different parts have, of sizes that [Image.Match] has passed.
func Total(parts []Part) (bytes int64) {
	for _, p := range once(parts) {
		bytes += p.Size
	}
	return bytes
}

// once leaves out the parts that were there before: many images have one layer twice.
func once(parts []Part) (different []Part) {
	seen := map[string]bool{}
	for _, p := range parts {
		if !seen[p.Digest] {
			seen[p.Digest] = true
			different = append(different, p)
		}
	}
	return different
}

// Content lists the digests of the layers' archives, which Docker tells of an image in any store.
func (i *Image) Content() (digests []string) {
	for _, l := range i.layers {
		digests = append(digests, l.content)
	}
	return digests
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
