package images_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"viiwork/images"
	"viiwork/images/imagestest"
)

func TestBookIsPrivateAndWhole(t *testing.T) {
	r := imagestest.New(t)
	r.Random("engine:v1")
	m := newMachine(t, &daemon{})
	if _, err := m.pull(r.Ref("engine:v1"), ""); err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(m.path)
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want 0600", stat.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(m.path), ".images-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestTwoProcessesLoseNothing lets several stocks, each with the book as it was when it began, write at one time.
func TestTwoProcessesLoseNothing(t *testing.T) {
	r, path := imagestest.New(t), filepath.Join(t.TempDir(), "images.json")
	var running sync.WaitGroup
	for i := range 8 {
		image := fmt.Sprintf("engine:v%d", i)
		r.Random(image)
		stock := stockOf(&daemon{}, openBook(t, path))
		running.Go(func() {
			if _, err := stock.Pull(t.Context(), images.Order{Image: r.Ref(image)}); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if kept := openBook(t, path).All(); len(kept) != 8 {
		t.Errorf("%d of 8 are kept", len(kept))
	}
}

func TestDamagedBookPinsNothingAndSaysSo(t *testing.T) {
	id := "sha256:" + strings.Repeat("a", 64)
	image := func(ref, digest, id string) string {
		return fmt.Sprintf(`{"version":1,"images":[{"reference":%q,"digest":%q,"id":%q}]}`, ref, digest, id)
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf(`{"reference":"index.docker.io/library/x:%d","id":%q}`, i, id)
	}
	if _, err := openText(t, image("index.docker.io/library/x:1", "", id)); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for _, text := range []string{
		"", "{", `{"version":2}`, image("x", "", id), image("index.docker.io/library/x:1", "", "x"), image("index.docker.io/library/x:1", "", ""),
		image("index.docker.io/library/x:1", "sha256:short", id), `{"version":1,"images":[` + strings.Join(many, ",") + `]}`,
		`{"version":1}` + strings.Repeat(" ", 2<<20),
	} {
		book, err := openText(t, text)
		if err == nil || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%.60s: %v", text, err)
			continue
		}
		if _, ok := book.Pin("x:1"); ok || len(book.All()) > 0 {
			t.Errorf("%.60s pins an image", text)
		}
	}
}

func openText(t *testing.T, text string) (*images.Book, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return images.OpenBook(path)
}

func TestBookForgetsTheOldest(t *testing.T) {
	m := newMachine(t, &daemon{})
	for i := range 300 {
		if err := images.Keep(m.book, images.Held{
			Reference: fmt.Sprintf("index.docker.io/library/x:%d", i), ID: "sha256:" + strings.Repeat("a", 64), At: someDay.AddDate(0, 0, i),
		}); err != nil {
			t.Fatal(err)
		}
	}
	kept := m.kept()
	if len(kept) != 256 {
		t.Errorf("%d are kept", len(kept))
	}
	if _, ok := openBook(t, m.path).Find("x:299"); !ok {
		t.Error("the newest was forgotten")
	}
}

// TestBookThatIsNoFileIsNotWaitedFor: a pipe in its place would hold the node's start for ever.
func TestBookThatIsNoFileIsNotWaitedFor(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":   func(path string) error { return os.Mkdir(path, 0o700) },
		"a device":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"round link": func(path string) error { return os.Symlink(path, path) },
	} {
		path := filepath.Join(t.TempDir(), "images.json")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		opened := make(chan error, 1)
		go func() {
			_, err := images.OpenBook(path)
			opened <- err
		}()
		select {
		case err := <-opened:
			if err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is waited for", name)
		}
	}
}

// FuzzBook: whatever the file holds, what is believed names images in full and by their ids.
func FuzzBook(f *testing.F) {
	id := "sha256:" + strings.Repeat("a", 64)
	f.Add([]byte(`{"version":1,"images":[{"reference":"index.docker.io/library/x:1","digest":"` + id + `","id":"` + id + `","at":"2026-03-04T05:06:07Z"}]}`))
	f.Add([]byte(`{"version":1,"images":[{"reference":"x","id":1}]}`))
	f.Add([]byte(`null`))
	path := filepath.Join(f.TempDir(), "images.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		book, err := images.OpenBook(path)
		if all := book.All(); err != nil && len(all) > 0 || len(all) > 256 {
			t.Fatalf("%d images, %v", len(all), err)
		}
		for _, h := range book.All() {
			if pinned, ok := book.Pin(h.Reference); !ok || !strings.HasPrefix(pinned, "sha256:") || len(pinned) != len(id) {
				t.Fatalf("%+v is started as %q", h, pinned)
			}
		}
	})
}
