package update

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is the one file that is taken out of a release's layer; no other is ever written anywhere.
const program = "usr/bin/viiwork"

// Found is a release as a source has it. That it is there says nothing of where it is from.
type Found struct {
	version string // the one it claims to be
	digest  v1.Hash
	index   []byte
	source  *Source
}

// Verified is a release whose proof held. Only a Verifier makes one, and nothing else can be installed. What it hands
// out is fetched by the digests that were proved: a tag that moves afterwards changes nothing.
type Verified struct {
	Found
	proof proof
}

// Commit it was built from, and when it was signed.
func (v *Verified) Commit() (string, time.Time) { return v.proof.commit, v.proof.signed }

// Look finds a version, or the digest of an index, in a source. Nothing is verified.
func Look(ctx context.Context, s *Source, what string) (*Found, error) {
	version := what
	if strings.HasPrefix(what, "sha256:") {
		version = ""
	} else if err := CheckVersion(what); err != nil {
		return nil, err
	}
	digest, index, err := s.at.resolve(ctx, what)
	if err != nil {
		return nil, err
	}
	f := &Found{version, digest, index, s}
	if version == "" {
		f.version = f.annotations()[versionAnnotation]
		if err := CheckVersion(f.version); err != nil {
			return nil, fmt.Errorf("reading the index %s: %w", digest, err)
		}
	}
	return f, nil
}

// Version it claims, "v1.2.3"; that of a Verified is proved.
func (v *Found) Version() string { return v.version }

// Digest of its index, "sha256:…".
func (v *Found) Digest() string { return v.digest.String() }

// Publisher is whom it names as its own, in its annotations; "" where it names none.
func (v *Found) Publisher() string { return printable(v.annotations()["viiwork.publisher"]) }

func (v *Found) annotations() map[string]string {
	var doc v1.IndexManifest
	if json.Unmarshal(v.index, &doc) != nil {
		return nil
	}
	return doc.Annotations
}

// Platforms it was built for: "linux/amd64".
func (v *Found) Platforms() []string {
	var names []string
	for _, d := range v.manifests() {
		if d.Platform != nil {
			names = append(names, printable(d.Platform.String()))
		}
	}
	slices.Sort(names)
	return names
}

func (v *Found) manifests() []v1.Descriptor { return indexed(v.index) }

// indexed lists what an index names; one that cannot be read names nothing.
func indexed(index []byte) []v1.Descriptor {
	var doc v1.IndexManifest
	if json.Unmarshal(index, &doc) != nil {
		return nil
	}
	return doc.Manifests
}

// Levels are the digests of one platform's part of a release, from the inside out, in hex.
type Levels struct {
	Program  string // of the program
	Content  string // of the archive that holds it
	Layer    string // of that archive, compressed
	Manifest string // of the platform's manifest
}

// Program writes the program for a platform ("linux/amd64") to w and returns its SHA-256 in hex. What was written before
// an error is worth nothing. A w with a method Expect(size int64) is told before how many bytes the layer promises.
func (v *Verified) Program(ctx context.Context, platform string, w io.Writer) (string, error) {
	if v == nil || v.source == nil {
		return "", errors.New("taking the program out of a release: nothing was verified")
	}
	levels, err := v.unpack(ctx, platform, w)
	return levels.Program, err
}

// Levels reads all of a platform's part and takes its digests.
func (v *Found) Levels(ctx context.Context, platform string) (Levels, error) {
	return v.unpack(ctx, platform, io.Discard)
}

func (v *Found) unpack(ctx context.Context, platform string, w io.Writer) (Levels, error) {
	fail := func(err error) (Levels, error) {
		return Levels{}, fmt.Errorf("taking the program for %s out of %s: %w", platform, v.version, err)
	}
	m, layer, err := v.layer(ctx, platform)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience+time.Duration(layer.Size/slowest)*time.Second)
	defer cancel()
	content, err := v.source.at.open(ctx, layer)
	if err != nil {
		return fail(err)
	}
	defer content.Close()
	program, inner, err := unpack(content, layer, w)
	if err != nil {
		return fail(fmt.Errorf("%w: nothing of it is used", err))
	}
	return Levels{program, inner, layer.Digest.Hex, m.digest.Hex}, nil
}

// manifest is a platform's.
type manifest struct {
	v1.Manifest
	digest v1.Hash
}

// layer finds the one that holds the program.
func (v *Found) layer(ctx context.Context, platform string) (manifest, v1.Descriptor, error) {
	var found []v1.Descriptor
	for _, d := range v.manifests() {
		if d.Platform != nil && d.Platform.String() == platform {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return manifest{}, v1.Descriptor{}, fmt.Errorf("the release has %d programs for this platform, its platforms are %s: ask the publisher for one, or build it", len(found), printable(strings.Join(v.Platforms(), ", ")))
	}
	text, err := v.source.readManifest(ctx, found[0])
	if err != nil {
		return manifest{}, v1.Descriptor{}, err
	}
	m := manifest{digest: found[0].Digest}
	if err := json.Unmarshal(text, &m.Manifest); err != nil {
		return manifest{}, v1.Descriptor{}, fmt.Errorf("reading its manifest: %w", err)
	}
	if len(m.Layers) != 1 || m.Layers[0].Digest.Algorithm != "sha256" || m.Layers[0].Size <= 0 || m.Layers[0].Size > maxLayer {
		return manifest{}, v1.Descriptor{}, fmt.Errorf("its manifest has %d layers, not one of at most %d bytes", len(m.Layers), maxLayer)
	}
	return m, m.Layers[0], nil
}

// counted passes on what a layer may have, and takes its digest.
type counted struct {
	from io.Reader
	sum  hash.Hash
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	if c.left -= int64(n); c.left < 0 {
		return n, errors.New("the layer is longer than it says")
	}
	return n, err
}

// unpack reads a layer to its end, since only then its digest is known, and returns the digests of the program and of the
// archive. All that is in it counts against the limit.
func unpack(content io.Reader, layer v1.Descriptor, w io.Writer) (program, inner string, err error) {
	raw := &counted{content, sha256.New(), layer.Size}
	plain, err := gzip.NewReader(raw)
	if err != nil {
		return "", "", fmt.Errorf("reading the layer: %w", err)
	}
	sum := sha256.New()
	limited := &io.LimitedReader{R: plain, N: maxUnpacked + 1}
	archive := io.TeeReader(limited, sum)
	program, err = find(tar.NewReader(archive), w)
	if err == nil {
		_, err = io.Copy(io.Discard, archive)
	}
	if limited.N == 0 {
		return "", "", fmt.Errorf("the layer unpacks to more than %d bytes", maxUnpacked)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, raw)
	}
	if err != nil {
		return "", "", fmt.Errorf("reading the layer: %w", err)
	}
	if got := hex.EncodeToString(raw.sum.Sum(nil)); got != layer.Digest.Hex {
		return "", "", fmt.Errorf("the layer that came is sha256:%s, not %s", got, layer.Digest)
	}
	return program, hex.EncodeToString(sum.Sum(nil)), nil
}

// find copies the one regular file of exactly that name. A second one, or another way to write its name, is a trick.
func find(layer *tar.Reader, w io.Writer) (string, error) {
	sum, found := sha256.New(), false
	for {
		h, err := layer.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if h.Name != program && path.Clean("/"+h.Name) != "/"+program {
			continue
		}
		if h.Name != program || h.Typeflag != tar.TypeReg || found {
			return "", fmt.Errorf("it holds %s in an unusual way (%s, type %q)", program, quoted(h.Name), h.Typeflag)
		}
		if h.Size > maxUnpacked { // holes cost the archive nothing
			return "", fmt.Errorf("it unpacks to more than %d bytes", maxUnpacked)
		}
		if who, ok := w.(interface{ Expect(size int64) }); ok {
			who.Expect(h.Size)
		}
		if _, err := io.Copy(io.MultiWriter(w, sum), layer); err != nil {
			return "", err
		}
		found = true
	}
	if !found {
		return "", fmt.Errorf("it holds no file %s", program)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
