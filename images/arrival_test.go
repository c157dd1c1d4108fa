package images_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/images"
	"viiwork/images/imagestest"
	"viiwork/images/papers"
)

// TestAKilledFetchIsClearedByTheNext: its own name alone, and none that is on its way.
func TestAKilledFetchIsClearedByTheNext(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	digest := r.Random("engine:v1")
	a := newAsker(t, d, newMember(t, r, "attic", "engine:v1", false))
	const killed, strange, running = "0123456789ab-abcdefgh", "0123456789ab-bbbbbbbb", "0123456789ab-cccccccc"
	for _, tag := range []string{killed, strange, running} {
		if err := d.Tag(t.Context(), "sha256:x", "viiwork-arrived:"+tag); err != nil {
			t.Fatal(err)
		}
	}
	done, err := a.cfg.Papers.Announce(running)
	if err != nil {
		t.Fatal(err)
	}
	defer done(true)
	file := filepath.Join(a.state, "image-papers", ".arriving-"+killed)
	if err := os.WriteFile(file, nil, 0o600); err != nil { // as a process leaves it that has ended
		t.Fatal(err)
	}
	if _, err := a.pull(r.Ref("engine:v1"), digest); err != nil {
		t.Fatal(err)
	}
	left := d.arrivals()
	slices.Sort(left)
	if want := []string{"viiwork-arrived:" + strange, "viiwork-arrived:" + running}; !slices.Equal(left, want) {
		t.Errorf("Docker has %v, want %v", left, want)
	}
	notes, err := filepath.Glob(filepath.Join(a.state, "image-papers", ".arriving-*"))
	if err != nil || len(notes) != 1 || !strings.HasSuffix(notes[0], running) {
		t.Errorf("noted: %v, %v", notes, err)
	}
}

// TestAFetchIsWrittenDownWhileItArrives, so that the next one can clear it away.
func TestAFetchIsWrittenDownWhileItArrives(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	digest := r.Random("engine:v1")
	m := newMember(t, r, "attic", "engine:v1", false)
	a := newAsker(t, d, m)
	noted := 0
	m.spoil = func(_ images.Piece, b []byte) ([]byte, error) {
		files, err := filepath.Glob(filepath.Join(a.state, "image-papers", ".arriving-"+strings.TrimPrefix(digest, "sha256:")[:12]+"-*"))
		noted = max(noted, len(files))
		return b, err
	}
	if _, err := a.pull(r.Ref("engine:v1"), digest); err != nil || noted != 1 {
		t.Errorf("%v, noted %d times", err, noted)
	}
	if left, _ := filepath.Glob(filepath.Join(a.state, "image-papers", ".arriving-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestImagesFetchedBeforePapersGetThem when their registry is reached again, and only if Docker has the very image.
func TestImagesFetchedBeforePapersGetThem(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	old, other := r.Random("old:v1"), r.Random("other:v1")
	r.Random("engine:v1")
	a := newAsker(t, d)
	a.cfg.Members = nil
	kept := a.cfg.Papers
	a.cfg.Papers = papers.Folder{} // as a version did that kept none
	for _, image := range []string{"old:v1", "other:v1"} {
		if _, err := a.pull(r.Ref(image), ""); err != nil {
			t.Fatal(err)
		}
	}
	book := filepath.Join(a.state, "images.json")
	text, err := os.ReadFile(book)
	if err != nil {
		t.Fatal(err)
	}
	held, _ := a.cfg.Book.Digest(other)
	if err := os.WriteFile(book, bytes.ReplaceAll(text, []byte(held.ID), []byte("sha256:"+strings.Repeat("0", 64))), 0o600); err != nil {
		t.Fatal(err)
	}
	a.cfg.Papers, a.cfg.Book = kept, openBook(t, book)
	if _, err := a.pull(r.Ref("engine:v1"), ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := kept.Find(old); err != nil || !a.told("other members can take") {
		t.Errorf("%v, told %q", err, a.notes)
	}
	if _, _, err := kept.Find(other); err == nil {
		t.Error("an image that Docker has otherwise is given away")
	}
}
