package modelcopy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/modelcopy"
)

var one = modelcopy.Source{Shards: []string{"sub/m.gguf"}}

func TestAModelArrivesWithAllItsFiles(t *testing.T) {
	sizes := map[string]int{"m-00001-of-00002.gguf": 2*pieceBytes + 5, "m-00002-of-00002.gguf": pieceBytes, "mmproj-m.gguf": 1}
	src := modelcopy.Source{Shards: []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}, MMProj: "mmproj-m.gguf"}
	for _, as := range []string{"", "other.gguf"} {
		g := newGiver(t, sizes, src)
		a := newAsker(t, g)
		a.want.As = as
		last := modelcopy.Progress{}
		a.tell = func(p modelcopy.Progress) {
			if p.Done < last.Done || p.Size != 3*pieceBytes+6 {
				t.Errorf("after %+v came %+v", last, p)
			}
			last = p
		}
		got, err := a.pull(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj-m.gguf"}
		here := names
		if as != "" {
			here = []string{"other-00001-of-00002.gguf", "other-00002-of-00002.gguf", "mmproj-other.gguf"}
		}
		for i, name := range names {
			b := content(name, sizes[name])
			sum := sha256.Sum256(b)
			a.has(here[i], b)
			if f := got.Files[i]; f.Path != filepath.Join(a.dir, here[i]) || f.SHA256 != hex.EncodeToString(sum[:]) || f.MMProj != (i == 2) || f.Had {
				t.Errorf("%+v", f)
			}
		}
		a.holds(here...)
		if last.Done != last.Size {
			t.Errorf("at the end %+v", last)
		}
	}
}

// A copy that is cut off goes on from where it was, and asks for nothing again that it has.
func TestACutCopyGoesOnFromThere(t *testing.T) {
	const pieces = 6
	g := newGiver(t, map[string]int{"sub/m.gguf": pieces * pieceBytes}, one)
	a := newAsker(t, g)
	ctx, cut := context.WithCancel(t.Context())
	a.tell = func(p modelcopy.Progress) {
		if p.Done >= 3*pieceBytes {
			cut()
		}
	}
	_, err := a.pull(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "goes on from there") {
		t.Fatal(err)
	}
	a.holds("m.gguf.part", "m.gguf.part.json")
	before := g.asked.Load()
	a.tell = func(modelcopy.Progress) {}
	if _, err := a.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.has("m.gguf", content("sub/m.gguf", pieces*pieceBytes))
	a.holds("m.gguf")
	if again := g.asked.Load() - before; again > pieces-3 {
		t.Errorf("%d pieces were asked for after %d of %d had come", again, before, pieces)
	}
}

// The member breaks off in the middle of a piece, and is there again: the copy lives on.
func TestAMemberThatBreaksOffIsAskedAgain(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 2 * pieceBytes}, one)
	a := newAsker(t, g)
	g.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != modelcopy.PiecePath || g.asked.Load() != 2 {
			return false
		}
		w.Header().Set("Content-Length", "4194304")
		_, _ = w.Write(make([]byte, 1000))
		panic(http.ErrAbortHandler)
	}
	if _, err := a.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.has("m.gguf", content("sub/m.gguf", 2*pieceBytes))
	if g.asked.Load() != 3 {
		t.Errorf("%d pieces were asked for", g.asked.Load())
	}
}

func TestAnotherFileIsNeverReplaced(t *testing.T) {
	b := content("sub/m.gguf", 100)
	for name, there := range map[string][]byte{"smaller": []byte("mine"), "as large": bytes.Repeat([]byte("x"), 100), "of the same digest": append(bytes.Clone(b[:99]), b[99]+1)} {
		g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
		a := newAsker(t, g)
		write(t, filepath.Join(a.dir, "m.gguf"), there)
		_, err := a.pull(t.Context())
		var refused *modelcopy.Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "--as") {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(a.dir, "m.gguf")); !bytes.Equal(got, there) {
			t.Errorf("%s: it was replaced", name)
		}
		a.holds("m.gguf")
	}
	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	a := newAsker(t, g)
	write(t, filepath.Join(a.dir, "m.gguf"), b)
	got, err := a.pull(t.Context())
	if err != nil || !got.Files[0].Had || g.asked.Load() != 0 {
		t.Errorf("the same file: %+v, %v, %d pieces", got, err, g.asked.Load())
	}
}

// A file that the owner puts there while the copy runs is the owner's, too.
func TestAFileThatComesMeanwhileStays(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	a := newAsker(t, g)
	a.tell = func(modelcopy.Progress) { _ = os.WriteFile(filepath.Join(a.dir, "m.gguf"), []byte("mine"), 0o600) }
	var refused *modelcopy.Refused
	if _, err := a.pull(t.Context()); !errors.As(err, &refused) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(a.dir, "m.gguf")); string(got) != "mine" {
		t.Errorf("it is %q now", got)
	}
}

func TestWithoutRoomNothingIsWritten(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 5 * pieceBytes}, one)
	a := newAsker(t, g)
	a.free = 1<<30 + 5*pieceBytes - 1
	_, err := a.pull(t.Context())
	var refused *modelcopy.Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "20.0 MiB") || !strings.Contains(err.Error(), "make room") {
		t.Error(err)
	}
	a.holds()
	a.free++
	if _, err := a.pull(t.Context()); err != nil {
		t.Error(err)
	}
}

// What another copy has yet to write is not free, and what it has written is not counted twice.
func TestCopiesShareTheRoom(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 2 * pieceBytes}, one)
	a := newAsker(t, g)
	other := a.want
	other.As = "n.gguf"
	none := func(modelcopy.Progress) {}
	var early, late error
	a.tell = func(p modelcopy.Progress) {
		switch {
		case p.Done == 0 && early == nil:
			a.free = 1<<30 + 4*pieceBytes - 1
			_, early = a.copier.Pull(t.Context(), other, none)
		case p.Done == p.Size && p.State == modelcopy.StateChecking:
			a.free = 1<<30 + 2*pieceBytes
			_, late = a.copier.Pull(t.Context(), other, none)
		}
	}
	if _, err := a.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	var refused *modelcopy.Refused
	if !errors.As(early, &refused) || !strings.Contains(early.Error(), "make room") {
		t.Errorf("while all has yet to come: %v", early)
	}
	if late != nil {
		t.Errorf("once all has come: %v", late)
	}
}

// A file may be written by one copy at a time, and what lies under the name of a part is not always a copy's.
func TestOneCopyWritesAFile(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 2 * pieceBytes}, one)
	a := newAsker(t, g)
	var second, elsewhere error
	other := newAsker(t, g)
	other.want.Dir = a.dir
	tried := false
	a.tell = func(modelcopy.Progress) {
		if !tried {
			tried = true
			_, second = a.copier.Pull(t.Context(), a.want, func(modelcopy.Progress) {})
			_, elsewhere = other.pull(t.Context())
		}
	}
	if _, err := a.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	var refused *modelcopy.Refused
	if !errors.As(second, &refused) || !strings.Contains(second.Error(), "already") {
		t.Errorf("the second of one node: %v", second)
	}
	if !errors.As(elsewhere, &refused) || !strings.Contains(elsewhere.Error(), "another node") {
		t.Errorf("that of another node: %v", elsewhere)
	}
	a.has("m.gguf", content("sub/m.gguf", 2*pieceBytes))

	b := newAsker(t, g)
	write(t, filepath.Join(b.dir, "m.gguf.part"), []byte("a browser's"))
	if _, err := b.pull(t.Context()); !errors.As(err, &refused) {
		t.Errorf("a foreign part: %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(b.dir, "m.gguf.part")); string(got) != "a browser's" {
		t.Errorf("it is %q now", got)
	}
}

// What a copy of an older file left is of no use to that of a newer one.
func TestAPartOfAnotherFileIsBegunAnew(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 3 * pieceBytes}, one)
	a := newAsker(t, g)
	ctx, cut := context.WithCancel(t.Context())
	a.tell = func(p modelcopy.Progress) {
		if p.Done >= pieceBytes {
			cut()
		}
	}
	if _, err := a.pull(ctx); err == nil {
		t.Fatal("it was not cut")
	}
	b := content("another", 2*pieceBytes)
	g.write("sub/m.gguf", b)
	a.tell = func(modelcopy.Progress) {}
	if _, err := a.pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.has("m.gguf", b)
	a.holds("m.gguf")
}

// A file that is replaced at the member while it is copied is not mixed with what came of the first.
func TestAFileThatChangesOnTheWayIsRefused(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 3 * pieceBytes}, one)
	a := newAsker(t, g)
	a.tell = func(p modelcopy.Progress) {
		if p.Done == pieceBytes {
			g.write("sub/m.gguf", content("another", 3*pieceBytes+1))
		}
	}
	if _, err := a.pull(t.Context()); err == nil || !strings.Contains(err.Error(), "another one now") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(a.dir, "m.gguf")); err == nil {
		t.Error("it is here")
	}
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What has a part's name and was left by no copy is not written into, and a record that no copy wrote is not believed nor waited for.
func TestWhatNoCopyLeftIsLeftAlone(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, []byte("outside"))
	for name, c := range map[string]struct {
		put  func(part, record string) error
		came bool
	}{
		"a pipe":            {func(part, _ string) error { return modelcopy.Pipe(part) }, false},
		"a link out":        {func(part, _ string) error { return os.Symlink(outside, part) }, false},
		"a loop":            {func(part, _ string) error { return os.Symlink(part, part) }, false},
		"a folder":          {func(part, _ string) error { return os.Mkdir(part, 0o700) }, false},
		"a record's pipe":   {func(_, record string) error { return modelcopy.Pipe(record) }, true},
		"a record's device": {func(_, record string) error { return os.Symlink("/dev/zero", record) }, true},
		"a long record": {func(part, record string) error {
			return errors.Join(os.WriteFile(part, []byte("mine"), 0o600), os.WriteFile(record, bytes.Repeat([]byte(" "), 10<<20), 0o600))
		}, false},
		"a record of other types": {func(part, record string) error {
			return errors.Join(os.WriteFile(part, []byte("mine"), 0o600), os.WriteFile(record, []byte(`{"digest":1,"size":"x"}`), 0o600))
		}, false},
		"a record of too many bytes": {func(part, record string) error {
			return errors.Join(os.WriteFile(part, []byte("old"), 0o600), os.WriteFile(record, []byte(`{"digest":"","size":1152921504606846976}`), 0o600))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
			a := newAsker(t, g)
			part := filepath.Join(a.dir, "m.gguf.part")
			if err := c.put(part, part+".json"); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := a.pull(t.Context())
				ended <- err
			}()
			var err error
			select {
			case err = <-ended:
			case <-time.After(time.Minute):
				t.Fatal("it is waited for")
			}
			var refused *modelcopy.Refused
			switch {
			case c.came && err != nil:
				t.Error(err)
			case c.came:
				a.has("m.gguf", content("sub/m.gguf", 100))
			case !errors.As(err, &refused) || !strings.Contains(err.Error(), "no copy left it: move it away"):
				t.Error(err)
			}
			if text, err := os.ReadFile(outside); string(text) != "outside" {
				t.Errorf("what lies outside is %q, %v", text, err)
			}
		})
	}
}

// FuzzRecord: whatever lies beside a part, one of another file is never gone on with.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"digest":"v1:0","size":3}`))
	f.Add([]byte(`{"digest":"v1:1","size":1152921504606846976}`))
	f.Add([]byte(`{"size":NaN}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "m.gguf")
		write(t, path+".part", []byte("old"))
		write(t, path+".part.json", text)
		at, err := modelcopy.OpenPart(path, "v1:1", 5)
		if err == nil && at != 0 && !bytes.Contains(text, []byte("v1:")) {
			t.Errorf("%q: goes on at %d", text, at)
		}
	})
}
