package update

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const maxConfig = 1 << 20 // bytes, of an image's configuration

// Image is what a release's image for one platform is, by the digests that were proved.
type Image struct {
	Config  string   // sha256:…, of its configuration; Docker's id of it in its own store
	Content []string // sha256:…, of its layers' archives, which Docker tells of it in any store
}

// Image writes the image for a platform ("linux/amd64") to w in the form that 'docker load' reads, under a name. The list of
// what is in the archive comes last, when all of it has been held against its digests: an archive that breaks off holds no
// image. What was written before an error is worth nothing. A w with a method Expect(size int64) is told before how many bytes
// the layer has, which is nearly all of it.
func (v *Verified) Image(ctx context.Context, platform, name string, w io.Writer) (Image, error) {
	if v == nil || v.source == nil {
		return Image{}, errors.New("taking the image out of a release: nothing was verified")
	}
	image, err := v.image(ctx, platform, name, w)
	if err != nil {
		return Image{}, fmt.Errorf("taking the image for %s out of %s: %w: nothing of it is used", platform, v.version, err)
	}
	return image, nil
}

func (v *Verified) image(ctx context.Context, platform, name string, w io.Writer) (Image, error) {
	m, layer, err := v.layer(ctx, platform)
	if err != nil {
		return Image{}, err
	}
	if who, ok := w.(interface{ Expect(size int64) }); ok {
		who.Expect(layer.Size)
	}
	to := tar.NewWriter(w)
	config, content, err := v.imageConfig(ctx, m, platform)
	if err != nil {
		return Image{}, err
	}
	configName, layerName := m.Config.Digest.Hex+".json", layer.Digest.Hex+".tar.gz"
	if err := enclose(to, configName, config); err != nil {
		return Image{}, err
	}
	inner, err := v.copyLayer(ctx, layer, layerName, to)
	if err != nil {
		return Image{}, err
	}
	if inner != content.Hex {
		return Image{}, errors.New("its layer is not the one of its configuration")
	}
	list, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{name}, "Layers": []string{layerName}}})
	if err != nil {
		return Image{}, err
	}
	if err := errors.Join(enclose(to, "manifest.json", list), to.Close()); err != nil {
		return Image{}, err
	}
	return Image{Config: m.Config.Digest.String(), Content: []string{content.String()}}, nil
}

// imageConfig reads the configuration and what it says of the one layer.
func (v *Verified) imageConfig(ctx context.Context, m manifest, platform string) ([]byte, v1.Hash, error) {
	if m.Config.Digest.Algorithm != "sha256" || m.Config.Size > maxConfig {
		return nil, v1.Hash{}, errors.New("its manifest names no configuration that an image can have")
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	from, err := v.source.at.open(ctx, m.Config)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	defer from.Close()
	text, err := readAll(from, maxConfig)
	if err == nil {
		err = checkDigest(text, m.Config.Digest)
	}
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("reading its configuration: %w", err)
	}
	var doc v1.ConfigFile
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, v1.Hash{}, fmt.Errorf("reading its configuration: %w", err)
	}
	if len(doc.RootFS.DiffIDs) != 1 || doc.OS+"/"+doc.Architecture != platform || !strings.HasPrefix(platform, "linux/") {
		return nil, v1.Hash{}, fmt.Errorf("it is an image of %d layers for %s", len(doc.RootFS.DiffIDs), quoted(doc.OS+"/"+doc.Architecture))
	}
	return text, doc.RootFS.DiffIDs[0], nil
}

// copyLayer passes a layer on as it is, and reads on the way whether it is what it should be. inner is the SHA-256 of its
// archive, in hex.
func (v *Verified) copyLayer(ctx context.Context, layer v1.Descriptor, name string, to *tar.Writer) (inner string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience+time.Duration(layer.Size/slowest)*time.Second)
	defer cancel()
	from, err := v.source.at.open(ctx, layer)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: layer.Size}); err != nil {
		return "", err
	}
	_, inner, err = unpack(io.TeeReader(from, to), layer, io.Discard)
	return inner, err
}

func enclose(to *tar.Writer, name string, text []byte) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := to.Write(text)
	return err
}
