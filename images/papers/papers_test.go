package papers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"viiwork/images/papers"
)

func TestArchiveHoldsTheImageInEitherForm(t *testing.T) {
	m := newMade(t, 3000, 0, 70000)
	for _, packed := range []bool{false, true} {
		var archive bytes.Buffer
		parts := m.parts(t, packed)
		if err := m.image(t).Archive("x:1", parts, m.open, &archive); err != nil {
			t.Fatal(err)
		}
		all := entries(t, archive.Bytes())
		if len(all) != 4 { // a layer that is there twice comes once
			t.Errorf("%d entries", len(all))
		}
		var list []struct {
			Config           string
			RepoTags, Layers []string
		}
		if err := json.Unmarshal(all["manifest.json"], &list); err != nil || len(list) != 1 || len(list[0].Layers) != 3 || list[0].RepoTags[0] != "x:1" {
			t.Fatalf("%+v, %v", list, err)
		}
		if !bytes.Equal(all[list[0].Config], m.Config) {
			t.Error("another configuration")
		}
		for i, name := range list[0].Layers {
			if got := sum(all[name]); got != parts[i].Digest {
				t.Errorf("layer %d is %s", i, got)
			}
		}
	}
}

// TestPapersThatDoNotHoldAreRefused: each document is the one that the digest before it names.
func TestPapersThatDoNotHoldAreRefused(t *testing.T) {
	good := newMade(t, 100, 200)
	other := newMade(t, 100, 201)
	index := func(manifests ...any) []byte { return text(t, map[string]any{"manifests": manifests}) }
	here := map[string]any{"os": "linux", "architecture": runtime.GOARCH}
	for name, c := range map[string]struct {
		papers papers.Papers
		digest string
		want   string
	}{
		"another digest":     {good.Papers, other.digest, "manifest is another"},
		"no digest":          {good.Papers, "", "manifest is another"},
		"another manifest":   {papers.Papers{Manifest: other.Manifest, Config: good.Config}, good.digest, "manifest is another"},
		"another config":     {papers.Papers{Manifest: good.Manifest, Config: other.Config}, good.digest, "configuration is another"},
		"nothing":            {papers.Papers{}, sum(nil), "manifest is none"},
		"no JSON":            {papers.Papers{Manifest: []byte("{")}, sum([]byte("{")), "manifest is none"},
		"an index of others": {papers.Papers{Index: index(map[string]any{"digest": other.digest, "platform": here}), Manifest: good.Manifest, Config: good.Config}, "", "manifest is another"},
		"an index of none":   {papers.Papers{Index: index(), Manifest: good.Manifest, Config: good.Config}, "", "none for linux"},
		"the second of an index": {papers.Papers{Index: index(map[string]any{"digest": other.digest, "platform": here}, map[string]any{"digest": good.digest, "platform": here}),
			Manifest: good.Manifest, Config: good.Config}, "", "manifest is another"},
		"too long": {papers.Papers{Manifest: make([]byte, papers.MaxDocument+1)}, "", "longer than any"},
	} {
		digest := c.digest
		if digest == "" && c.papers.Index != nil {
			digest = sum(c.papers.Index)
		}
		if _, err := c.papers.Check(digest); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	for name, change := range map[string]func(config map[string]any, layers []any) []any{
		"another platform": func(c map[string]any, l []any) []any { c["architecture"] = "s390x"; return l },
		"fewer layers":     func(_ map[string]any, l []any) []any { return l[:1] },
		"endless layers":   func(_ map[string]any, l []any) []any { l[0].(map[string]any)["size"] = 1 << 60; return l },
		"negative layers":  func(_ map[string]any, l []any) []any { l[0].(map[string]any)["size"] = -1; return l },
		"no layers": func(c map[string]any, _ []any) []any {
			c["rootfs"] = map[string]any{"type": "layers", "diff_ids": []any{}}
			return []any{}
		},
		"too many layers": func(c map[string]any, l []any) []any {
			ids := make([]any, 300)
			for i := range ids {
				ids[i] = good.order[0]
				l = append(l, l[0])
			}
			c["rootfs"] = map[string]any{"type": "layers", "diff_ids": ids}
			return l[:300]
		},
	} {
		m := newMade(t, 100, 200)
		var config map[string]any
		var manifest struct{ Layers []any }
		if json.Unmarshal(m.Config, &config) != nil || json.Unmarshal(m.Manifest, &manifest) != nil {
			t.Fatal("no JSON")
		}
		layers := change(config, manifest.Layers)
		m.describe(t, config, layers)
		if _, err := m.Check(m.digest); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}

func TestIndexLeadsToThisPlatform(t *testing.T) {
	m := newMade(t, 100)
	m.Index = text(t, map[string]any{"manifests": []any{
		map[string]any{"digest": sum([]byte("x")), "platform": map[string]any{"os": "linux", "architecture": "s390x"}},
		map[string]any{"digest": m.digest, "platform": map[string]any{"os": "linux", "architecture": runtime.GOARCH}},
	}})
	if _, err := m.Check(sum(m.Index)); err != nil {
		t.Error(err)
	}
	if _, err := m.Check(m.digest); err == nil {
		t.Error("an index passed for a manifest")
	}
}

// TestPartsThatAreNotTheImageAreRefused before, on the way, or at their end; the list of what is in the archive is never written.
func TestPartsThatAreNotTheImageAreRefused(t *testing.T) {
	m := newMade(t, 3000, 500)
	good := m.parts(t, false)
	packed := m.parts(t, true)
	change := func(n int, p papers.Part) []papers.Part {
		parts := append([]papers.Part(nil), good...)
		parts[n] = p
		return parts
	}
	for name, parts := range map[string][]papers.Part{
		"fewer":                good[:1],
		"more":                 append(append([]papers.Part(nil), good...), good[0]),
		"in another order":     {good[1], good[0]},
		"another one":          change(1, papers.Part{Digest: sum(nil), Size: 1}),
		"a path":               change(1, papers.Part{Digest: "sha256:../../etc/passwd", Size: 1}),
		"of no size":           change(0, papers.Part{Digest: good[0].Digest}),
		"of a size below none": change(0, papers.Part{Digest: good[0].Digest, Size: -5}),
		"of any size":          change(0, papers.Part{Digest: good[0].Digest, Size: 1 << 62}),
		"packed, of more":      change(0, papers.Part{Digest: packed[0].Digest, Size: packed[0].Size + 1}),
	} {
		if err := m.image(t).Match(parts); err == nil {
			t.Errorf("%s passed", name)
		}
	}
	body := m.archive[good[0].Digest]
	for name, c := range map[string]struct {
		gives io.Reader
		size  int64
		want  string
	}{
		"short":   {bytes.NewReader(body[:1000]), 3000, "ended after 1000"},
		"wrong":   {bytes.NewReader(append([]byte{body[0] ^ 1}, body[1:]...)), 3000, "other bytes"},
		"endless": {zeros{}, 3000, "other bytes"},
		"longer":  {bytes.NewReader(append(append([]byte(nil), body...), 1)), 3001, "other bytes"},
		"broken":  {io.MultiReader(bytes.NewReader(body[:10]), broken{}), 3000, "gone"},
	} {
		parts := change(0, papers.Part{Digest: good[0].Digest, Size: c.size})
		open := func(p papers.Part) (io.ReadCloser, error) {
			if p.Digest == good[0].Digest {
				return io.NopCloser(c.gives), nil
			}
			return m.open(p)
		}
		var archive bytes.Buffer
		err := m.image(t).Archive("x:1", parts, open, &archive)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if bytes.Contains(archive.Bytes(), []byte("manifest.json")) || archive.Len() > 1<<14 {
			t.Errorf("%s: %d bytes were written", name, archive.Len())
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it is gone") }

// TestNoLayerIsHeldInMemory: an image of many gigabytes goes through little.
func TestNoLayerIsHeldInMemory(t *testing.T) {
	const size = 32 << 20
	m := newMade(t, size)
	image, parts := m.image(t), m.parts(t, false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := image.Archive("x:1", parts, m.open, io.Discard); err != nil {
		t.Fatal(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > size/16 {
		t.Errorf("%d bytes were taken for a layer of %d", after.TotalAlloc-before.TotalAlloc, size)
	}
}

func TestPapersAreKeptAndForgotten(t *testing.T) {
	state := t.TempDir()
	f := papers.FolderIn(state)
	m, other := newMade(t, 100), newMade(t, 200)
	if _, _, err := f.Find(m.digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none yet: %v", err)
	}
	if err := f.Keep(other.digest, m.Papers); err == nil {
		t.Error("papers of another image were kept")
	}
	for _, one := range []*made{m, other} {
		if err := f.Keep(one.digest, one.Papers); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, err := papers.FolderIn(state).Find(m.digest); err != nil || !bytes.Equal(got.Manifest, m.Manifest) {
		t.Errorf("%v", err)
	}
	if err := f.Retain([]string{m.digest}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Find(other.digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("forgotten: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(state, "image-papers", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.WriteFile(files[0], text(t, other.Papers), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{m.digest, "../images", "sha256:" + strings.Repeat("g", 64), ""} {
		if _, _, err := f.Find(digest); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", digest, err)
		}
	}
}

func TestAnotherProgramIsToldApart(t *testing.T) {
	image := newMade(t, 100).image(t)
	for config, want := range map[string]bool{
		`{"Entrypoint":["/run"],"User":"7","Cmd":null,"Env":[]}`: true,
		`{"Entrypoint":["/run"],"User":"0"}`:                     false,
		`{"Entrypoint":["/bin/sh"],"User":"7"}`:                  false,
		`{"Entrypoint":["/run"],"User":"7","Env":["A=b"]}`:       false,
		`null`: false,
		``:     false,
	} {
		if got := image.Runs([]byte(config)); got != want {
			t.Errorf("%s: %t", config, got)
		}
	}
}

// FuzzCheck gives what strangers may: whatever passes makes an archive of its own parts, and of nothing else.
func FuzzCheck(f *testing.F) {
	m := newMade(f, 50, 0, 60)
	f.Add([]byte(nil), m.Manifest, m.Config)
	f.Add(text(f, map[string]any{"manifests": []any{map[string]any{"digest": m.digest}}}), m.Manifest, m.Config)
	f.Add([]byte(`{"manifests":[{"digest":"sha256:x","platform":null}]}`), []byte(`{"layers":[{"size":-1}]}`), []byte(`{"os":"linux","rootfs":null}`))
	f.Fuzz(func(t *testing.T, index, manifest, config []byte) {
		// The digests are made to fit, or nothing would ever pass.
		var doc map[string]any
		if json.Unmarshal(manifest, &doc) == nil && doc != nil {
			doc["config"] = map[string]any{"digest": sum(config), "size": len(config)}
			manifest = text(t, doc)
		}
		digest := sum(manifest)
		if len(index) > 0 {
			index = bytes.ReplaceAll(index, []byte(m.digest), []byte(digest))
			digest = sum(index)
		}
		image, err := (papers.Papers{Index: index, Manifest: manifest, Config: config}).Check(digest)
		if err != nil {
			return
		}
		parts, err := image.Parts(func(d string) (int64, bool) { return 1, d != "" })
		if err != nil {
			return
		}
		var archive bytes.Buffer
		err = image.Archive("x:1", parts, func(papers.Part) (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }, &archive)
		if err == nil {
			for name := range entries(t, archive.Bytes()) {
				if strings.ContainsAny(name, "/\\ ") {
					t.Errorf("an entry %q", name)
				}
			}
		}
	})
}

// FuzzParts: nothing that is matched is another image, or larger than any.
func FuzzParts(f *testing.F) {
	m := newMade(f, 50, 60)
	image := m.image(f)
	f.Add(text(f, m.parts(f, false)))
	f.Add(text(f, m.parts(f, true)))
	f.Add([]byte(`[{"digest":"sha256:x","size":1},{"digest":"","size":-1}]`))
	f.Fuzz(func(t *testing.T, told []byte) {
		var parts []papers.Part
		if json.Unmarshal(told, &parts) != nil || image.Match(parts) != nil {
			return
		}
		if len(parts) != 2 || !image.Wants(parts[0].Digest) || !image.Wants(parts[1].Digest) || papers.Total(parts) < 1 || papers.Total(parts) > 1<<44 {
			t.Errorf("%+v", parts)
		}
	})
}

// TestAnArrivalThatRootNotesIsReadByTheNode, which is another user in a container, and clears up after a command that was killed.
func TestAnArrivalThatRootNotesIsReadByTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	state := t.TempDir()
	if err := os.Chown(state, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	done, err := papers.FolderIn(state).Announce("0123456789ab-abcdefgh")
	if err != nil {
		t.Fatal(err)
	}
	defer done(true)
	files, err := filepath.Glob(filepath.Join(state, "image-papers", ".arriving-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 1234 {
		t.Errorf("it is user %d's", owner)
	}
}
