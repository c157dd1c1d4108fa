package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/store"
)

// flip changes a byte of a file.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestAFlippedBitTakesItsReplicasAlongAndNoOther(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(1000, 1))
	f.save("bb", state(1000, 2))
	f.save("cc", state(1500, 1)) // has most chunks of the first
	flip(t, f.packs()[0], mib)
	_, err := f.assemble("aa")
	if !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("assembling what is damaged: %v", err)
	}
	for _, n := range []store.Name{"aa", "cc"} {
		if _, err := f.Reader(n, key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s is still there: %v", n, err)
		}
	}
	f.holds("bb", state(1000, 2))
	f.save("aa", state(1000, 1))
	f.holds("aa", state(1000, 1))
	if !strings.Contains(f.log.String(), "not what was written") {
		t.Errorf("the log says nothing of it: %s", f.log)
	}
}

// A chunk that is held already may turn out to be damaged before what holds it is complete.
func TestNothingIsCompletedWithADamagedChunk(t *testing.T) {
	f := open(t, 64*mib)
	whole := state(1000, 1)
	f.save("aa", whole)
	m, _ := manifestOf(t, whole)
	a, err := f.Begin("bb", m)
	must(t, err)
	flip(t, f.packs()[0], mib)
	s, err := replica.Read(&hooked{bytes.NewReader(whole), mib * 3 / 2, func() {
		if _, err := f.assemble("aa"); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("assembling what is damaged: %v", err)
		}
	}}, int64(len(whole)))
	must(t, err)
	if _, _, err := f.Save(t.Context(), "cc", key, s); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("the save: %v", err)
	}
	if err := a.Commit(); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("the arrival: %v", err)
	}
	if len(f.List()) != 0 {
		t.Error("a replica is listed")
	}
	f.save("cc", whole)
	f.holds("cc", whole)
	f.clock.add(time.Hour)
	f.Tidy(t.Context())
	f.holds("cc", whole)
	f.weighs()
}

// Nothing unverified may come out, by whichever way.
func TestAFlippedBitNeverComesOut(t *testing.T) {
	f := open(t, 64*mib)
	want := state(200, 1)
	m, _ := f.save("aa", want)
	flip(t, f.packs()[0], 100_000)
	buf := make([]byte, replica.MaxChunk)
	bad := 0
	for _, c := range m.Chunks {
		if _, err := f.Chunk(c.Sum, buf); errors.Is(err, store.ErrDamaged) {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("%d chunks are damaged, want 1", bad)
	}
	if _, err := f.assemble("aa"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the replica: %v", err)
	}
}

// Of what no replica has yet nothing was synced: after a loss of power there may be other bytes under a good frame.
func TestWhatIsLeftOfAnArrivalIsCheckedAfterARestart(t *testing.T) {
	f := open(t, 64*mib)
	whole := state(500, 1)
	m, chunks := manifestOf(t, whole)
	a, err := f.Begin("aa", m)
	must(t, err)
	for i, b := range chunks {
		must(t, a.Put(i, b))
	}
	a.Abort()
	flip(t, f.packs()[0], mib/2)
	f.reopen()
	lacks := f.Lacks(m)
	if len(lacks) != 1 {
		t.Fatalf("%d chunks are missing, want the one that is broken", len(lacks))
	}
	a, err = f.Begin("aa", m)
	must(t, err)
	must(t, errors.Join(a.Put(lacks[0], chunks[lacks[0]]), a.Commit()))
	f.holds("aa", whole)
}

func TestWhatIsBrokenOnTheDiskIsThrownAwayAndNamed(t *testing.T) {
	kept, other := state(800, 1), state(600, 2)
	for name, harm := range map[string]func(t *testing.T, dir, pack, manifest string){
		"a pack is cut":          func(t *testing.T, _, pack, _ string) { must(t, os.Truncate(pack, mib/2)) },
		"a pack is empty":        func(t *testing.T, _, pack, _ string) { must(t, os.Truncate(pack, 0)) },
		"a pack is gone":         func(t *testing.T, _, pack, _ string) { must(t, os.Remove(pack)) },
		"a frame is flipped":     func(t *testing.T, _, pack, _ string) { flip(t, pack, 10) },
		"a pack's mark is wrong": func(t *testing.T, _, pack, _ string) { flip(t, pack, 0) },
		"a pack is a link": func(t *testing.T, _, pack, _ string) {
			must(t, os.Rename(pack, filepath.Join(t.TempDir(), "pack")))
			must(t, os.Symlink("/etc/passwd", pack))
		},
		"a manifest is cut":     func(t *testing.T, _, _, manifest string) { must(t, os.Truncate(manifest, 100)) },
		"a manifest is flipped": func(t *testing.T, _, _, manifest string) { flip(t, manifest, 200) },
		"a manifest is renamed": func(t *testing.T, _, _, manifest string) {
			must(t, os.Rename(manifest, filepath.Join(filepath.Dir(manifest), strings.Repeat("a", 32))))
		},
		"a manifest is huge": func(t *testing.T, _, _, manifest string) { must(t, os.Truncate(manifest, 1<<40)) },
		"a manifest is a link": func(t *testing.T, _, _, manifest string) {
			elsewhere := filepath.Join(t.TempDir(), "manifest")
			must(t, os.Rename(manifest, elsewhere))
			must(t, os.Symlink(elsewhere, manifest))
		},
		"a folder of ours is a link": func(t *testing.T, dir, _, _ string) {
			elsewhere := filepath.Join(t.TempDir(), "packs")
			must(t, os.Rename(filepath.Join(dir, "packs"), elsewhere))
			must(t, os.Symlink(elsewhere, filepath.Join(dir, "packs")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, 64*mib)
			f.save("aa", kept)
			pack := f.packs()[0]
			manifests, err := filepath.Glob(filepath.Join(f.cfg.Dir, "replicas", "*"))
			if err != nil || len(manifests) != 1 {
				t.Fatalf("%v, %v", manifests, err)
			}
			harm(t, f.cfg.Dir, pack, manifests[0])
			f.reopen()
			if len(f.List()) != 0 {
				t.Error("a broken replica is listed")
			}
			if !strings.Contains(f.log.String(), "thrown away") {
				t.Errorf("the log says nothing of it: %s", f.log)
			}
			f.save("aa", kept)
			f.save("bb", other)
			f.reopen()
			f.holds("aa", kept)
			f.holds("bb", other)
			f.weighs()
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStrangeFilesAreRemovedAndNothingElsewhereIsTouched(t *testing.T) {
	f := open(t, 64*mib)
	f.save("aa", state(100, 1))
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("kept"), 0o644))
	for _, dir := range []string{"packs", "replicas"} {
		at := filepath.Join(f.cfg.Dir, dir)
		must(t, os.Symlink(outside, filepath.Join(at, "link")))
		must(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(at, "00000000000000ff.pack")))
		must(t, os.MkdirAll(filepath.Join(at, "folder", "in", "it"), 0o700))
		must(t, syscall.Mkfifo(filepath.Join(at, "pipe"), 0o600))
		must(t, os.WriteFile(filepath.Join(at, "-1.pack"), []byte("x"), 0o600))
		must(t, os.WriteFile(filepath.Join(at, ".new-1"), []byte("x"), 0o600))
	}
	f.reopen()
	f.holds("aa", state(100, 1))
	f.weighs()
	if b, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || !bytes.Equal(b, []byte("kept")) {
		t.Errorf("a file elsewhere is %q, %v", b, err)
	}
	for _, dir := range []string{"packs", "replicas"} {
		if left, err := os.ReadDir(filepath.Join(f.cfg.Dir, dir)); err != nil || len(left) != 1 {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
}

// FuzzOpen: whatever stands in a pack or a manifest, the store opens, and gives out what was kept or nothing.
func FuzzOpen(f *testing.F) {
	want := state(30, 1)
	seed := open(f, mib)
	seed.save("aa", want)
	packName := filepath.Base(seed.packs()[0])
	pack, err := os.ReadFile(seed.packs()[0])
	if err != nil {
		f.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(seed.cfg.Dir, "replicas", "*"))
	if err != nil || len(manifests) != 1 {
		f.Fatal(manifests, err)
	}
	manifestName := filepath.Base(manifests[0])
	manifest, err := os.ReadFile(manifests[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(10), byte(1), uint32(0), byte(0))
	f.Add(uint32(0), byte(0), uint32(30), byte(9))
	f.Fuzz(func(t *testing.T, inPack uint32, xor byte, inManifest uint32, xorManifest byte) {
		p, m := bytes.Clone(pack), bytes.Clone(manifest)
		p[int(inPack)%len(p)] ^= xor
		m[int(inManifest)%len(m)] ^= xorManifest
		g := &fixture{TB: t, log: &bytes.Buffer{}, cfg: store.Config{Dir: t.TempDir(), Budget: mib, KeepFree: 1, Log: discard}}
		must(t, os.MkdirAll(filepath.Join(g.cfg.Dir, "packs"), 0o700))
		must(t, os.MkdirAll(filepath.Join(g.cfg.Dir, "replicas"), 0o700))
		must(t, os.WriteFile(filepath.Join(g.cfg.Dir, "packs", packName), p, 0o600))
		must(t, os.WriteFile(filepath.Join(g.cfg.Dir, "replicas", manifestName), m, 0o600))
		g.reopen()
		defer g.Close()
		got, err := g.assemble("aa")
		if err == nil && !bytes.Equal(got, want) {
			t.Error("other bytes came back than were kept")
		}
		g.save("aa", want)
		g.holds("aa", want)
	})
}
