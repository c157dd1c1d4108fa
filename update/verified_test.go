package update_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"viiwork/update"
)

const (
	amd64   = "linux/amd64"
	inLayer = "usr/bin/viiwork" // the program's name in a layer
)

func TestProgramComesOutOfEachPlatformsPart(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	found, _, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	if err != nil {
		t.Fatal(err)
	}
	for platform, program := range programs(version) {
		var out bytes.Buffer
		got, err := found.Program(t.Context(), platform, &out)
		if err != nil || out.String() != string(program) || got != sum(string(program)) {
			t.Errorf("%s: %q %s, %v", platform, out.String(), got, err)
		}
	}
}

func TestReleaseForAnotherPlatformSaysWhichItHas(t *testing.T) {
	w := newWorld(t)
	dir, index := w.layout(version, map[string][]byte{"linux/riscv64": []byte("other")})
	w.push(dir, version, w.prove(version, index))
	found, _, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := found.Program(t.Context(), amd64, io.Discard); err == nil || !strings.Contains(err.Error(), "linux/riscv64") {
		t.Fatalf("got %v, want an error that names linux/riscv64", err)
	}
}

func TestIndexWhosePartIsMissingGivesNoProgram(t *testing.T) {
	w := newWorld(t)
	found, dir := w.crafted(tarball(t, file{inLayer, tar.TypeReg, content}), nil)
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		if err := os.Remove(b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := found.Program(t.Context(), amd64, io.Discard); err == nil {
		t.Fatal("a program came out of nothing")
	}
}

func TestPlatformThatIsListedTwiceGivesNoProgram(t *testing.T) {
	w := newWorld(t)
	found, _ := w.crafted(tarball(t, file{inLayer, tar.TypeReg, content}), func(_ *v1.Manifest, index *v1.IndexManifest) {
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Digest: v1.Hash{Algorithm: "sha256", Hex: sum("x")}, Platform: &v1.Platform{OS: "linux", Architecture: "amd64"},
		})
	})
	if _, err := found.Program(t.Context(), amd64, io.Discard); err == nil {
		t.Fatal("one of two was taken")
	}
}

func TestPathTricksInLayerAreRefused(t *testing.T) {
	good := file{inLayer, tar.TypeReg, content}
	for name, files := range map[string][]file{
		"dot":          {{"./usr/bin/viiwork", tar.TypeReg, content}},
		"absolute":     {{"/usr/bin/viiwork", tar.TypeReg, content}},
		"up":           {{"../usr/bin/viiwork", tar.TypeReg, content}},
		"through":      {{"usr/sbin/../bin/viiwork", tar.TypeReg, content}},
		"link":         {{inLayer, tar.TypeSymlink, "/etc/passwd"}},
		"hard link":    {{"other", tar.TypeReg, content}, {inLayer, tar.TypeLink, "other"}},
		"directory":    {{"usr/bin/viiwork/", tar.TypeDir, ""}},
		"twice":        {good, {inLayer, tar.TypeReg, "another"}},
		"then link":    {good, {inLayer, tar.TypeSymlink, "/bin/sh"}},
		"then dot":     {good, {"./usr/bin/viiwork", tar.TypeReg, "another"}},
		"deeper":       {{"opt/usr/bin/viiwork", tar.TypeReg, content}},
		"another case": {{"usr/bin/Viiwork", tar.TypeReg, content}},
		"elsewhere":    {{"viiwork", tar.TypeReg, content}},
		"nothing":      {},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := newWorld(t).crafted(tarball(t, files...), nil)
			if _, err := found.Program(t.Context(), amd64, io.Discard); err == nil {
				t.Fatal("a program came out")
			}
		})
	}
}

func TestOnlyTheProgramIsTakenOutOfLayer(t *testing.T) {
	found, _ := newWorld(t).crafted(tarball(t,
		file{"../../etc/cron.d/x", tar.TypeReg, "evil"}, file{"tmp/", tar.TypeDir, ""}, file{inLayer, tar.TypeReg, content}, file{"after", tar.TypeReg, "more"}), nil)
	var out bytes.Buffer
	if _, err := found.Program(t.Context(), amd64, &out); err != nil || out.String() != content {
		t.Fatalf("%q, %v", out.String(), err)
	}
}

func TestLayerBombIsStopped(t *testing.T) {
	// One member of a megabyte of zeros, many times over: gzip files may be laid end to end.
	var member bytes.Buffer
	zip := gzip.NewWriter(&member)
	if _, err := zip.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	bomb := append(header(t, 256<<20), bytes.Repeat(member.Bytes(), 300)...)
	found, _ := newWorld(t).crafted(bomb, nil)
	written := &counting{}
	if _, err := found.Program(t.Context(), amd64, written); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Fatalf("got %v", err)
	}
	if written.n > 256<<20 {
		t.Errorf("%d bytes were written", written.n)
	}
}

// header is the beginning of an archive whose one file claims a size.
func header(t *testing.T, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := tar.NewWriter(zip).WriteHeader(&tar.Header{Name: inLayer, Typeflag: tar.TypeReg, Size: size}); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type counting struct{ n int }

func (c *counting) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestLayerThatClaimsTooMuchIsNotFetched(t *testing.T) {
	found, _ := newWorld(t).crafted(tarball(t, file{inLayer, tar.TypeReg, content}), func(m *v1.Manifest, _ *v1.IndexManifest) {
		m.Layers[0].Size = 1 << 40
	})
	if _, err := found.Program(t.Context(), amd64, io.Discard); err == nil {
		t.Fatal("a program came out")
	}
}

func TestLayerThatIsAnotherIsRefused(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	found, _, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, layer := range map[string][]byte{
		"another": tarball(t, file{inLayer, tar.TypeReg, "evil"}),
		"short":   tarball(t, file{inLayer, tar.TypeReg, "evil"})[:40],
		"long":    append(tarball(t, file{inLayer, tar.TypeReg, "evil"}), make([]byte, 1<<20)...),
		"empty":   {},
	} {
		answer := func() []byte { return layer }
		w.reg.Swap.Store(&answer)
		if sum, err := found.Program(t.Context(), amd64, io.Discard); err == nil || sum != "" {
			t.Errorf("%s: a program came out", name)
		}
	}
}

func TestLayerThatIsAnotherInDirectoryIsRefused(t *testing.T) {
	layer := tarball(t, file{inLayer, tar.TypeReg, content})
	found, dir := newWorld(t).crafted(layer, nil)
	evil := tarball(t, file{inLayer, tar.TypeReg, "evil"})
	if len(evil) > len(layer) {
		t.Fatal("the length alone gives it away")
	}
	write(t, filepath.Join(dir, "blobs", "sha256", sum(string(layer))), evil)
	if got, err := found.Program(t.Context(), amd64, io.Discard); err == nil || got != "" || !strings.Contains(err.Error(), "the layer that came is") {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestNothingVerifiedGivesNothing(t *testing.T) {
	if _, err := new(update.Verified).Program(t.Context(), amd64, io.Discard); err == nil {
		t.Fatal("the zero value gave a program")
	}
}
