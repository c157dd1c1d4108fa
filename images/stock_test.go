package images_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"viiwork/images"
	"viiwork/images/imagestest"
)

const goarch = runtime.GOARCH

func TestWhatWasPulledIsStartedByItsID(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	digest := r.Random("engine:v1")
	m := newMachine(t, d)
	held, err := m.pull(r.Ref("engine:v1"), "")
	if err != nil {
		t.Fatal(err)
	}
	if held.Digest != digest || !strings.HasPrefix(held.ID, "sha256:") || held.ID == digest || !held.At.Equal(someDay) {
		t.Errorf("held %+v, want digest %s and the id of a configuration", held, digest)
	}
	pin, ok := openBook(t, m.path).Pin(r.Ref("engine:v1"))
	if !ok || pin != held.ID {
		t.Errorf("a new process starts %q, %t; want %s", pin, ok, held.ID)
	}
	if !d.has(r.Ref("engine:v1")) {
		t.Error("the image has no name: it would be pruned")
	}
	if pin, ok := m.book.Pin("example/never:1"); ok || pin != "example/never:1" {
		t.Errorf("an image that nobody checked is pinned to %q", pin)
	}
}

func TestImageByDigestNeedsNoTag(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	old := r.Random("engine:v1")
	r.Random("engine:v1")
	m := newMachine(t, d)
	ref := r.Ref("engine@" + old)
	held, err := m.pull(ref, "")
	if err != nil || held.Digest != old {
		t.Fatalf("held %+v, %v; want %s", held, err, old)
	}
	if pin, ok := openBook(t, m.path).Pin(ref); !ok || pin != held.ID {
		t.Errorf("pinned to %q, %t", pin, ok)
	}
	if !d.has(r.Ref("engine:viiwork-" + old[len("sha256:"):][:12])) {
		t.Errorf("names %v: it would be pruned", d.ids)
	}
}

func TestPlatformsOfAnIndexAreToldApart(t *testing.T) {
	for _, stored := range []bool{false, true} {
		r := imagestest.New(t)
		digest := r.Index("engine:v1")
		if held, err := newMachine(t, &daemon{stored: stored}).pull(r.Ref("engine:v1"), ""); err != nil || held.Digest != digest {
			t.Errorf("containerd %t: held %+v, %v; want %s", stored, held, err, digest)
		}
	}
}

func TestMovedTagIsRefusedUntilItsNewDigestIsNamed(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	m := newMachine(t, d)
	old := r.Random("engine:v1")
	first, err := m.pull(r.Ref("engine:v1"), "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.pull(r.Ref("engine:v1"), ""); err != nil || again.ID != first.ID {
		t.Errorf("a tag that stayed: %+v, %v", again, err)
	}
	moved, pulls := r.Random("engine:v1"), d.pulls
	_, err = m.pull(r.Ref("engine:v1"), "")
	if !errors.Is(err, images.ErrMoved) || !strings.Contains(err.Error(), old) || !strings.Contains(err.Error(), "--digest "+moved) {
		t.Fatalf("error %v; want both digests and the way out", err)
	}
	if d.pulls != pulls {
		t.Error("it was fetched before it was refused")
	}
	if pin, _ := openBook(t, m.path).Pin(r.Ref("engine:v1")); pin != first.ID {
		t.Errorf("pinned to %s, not to the first one any more", pin)
	}
	now, err := m.pull(r.Ref("engine:v1"), moved)
	if err != nil || now.Digest != moved {
		t.Fatalf("named by its digest: %+v, %v", now, err)
	}
	if pin, _ := openBook(t, m.path).Pin(r.Ref("engine:v1")); pin != now.ID {
		t.Errorf("pinned to %s, want %s", pin, now.ID)
	}
}

func TestRegistryThatLiesChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(*imagestest.Registry, *daemon)
		want string
	}{
		"manifest": {func(r *imagestest.Registry, _ *daemon) { r.LieManifests.Store(true) }, "something else than what was asked for"},
		"layer":    {func(r *imagestest.Registry, _ *daemon) { r.LieLayers.Store(true) }, ""},
		"docker":   {func(_ *imagestest.Registry, d *daemon) { d.other = "sha256:" + strings.Repeat("0", 64) }, "it is not used"},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := imagestest.New(t), &daemon{}
			r.Random("engine:v1")
			m := newMachine(t, d)
			c.lie(r, d)
			_, err := m.pull(r.Ref("engine:v1"), "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v; want %q", err, c.want)
			}
			if kept := m.kept(); len(kept) > 0 {
				t.Errorf("kept %+v", kept)
			}
		})
	}
}

func TestPullThatBreaksOffCanBeMadeAgain(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	r.Random("engine:v1")
	m := newMachine(t, d)
	r.Cut.Store(1)
	if _, err := m.pull(r.Ref("engine:v1"), ""); err == nil {
		t.Fatal("a layer cut half-way passed")
	}
	if kept := m.kept(); len(kept) > 0 {
		t.Errorf("kept %+v", kept)
	}
	if _, err := m.pull(r.Ref("engine:v1"), ""); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

func TestWhatCannotBePulledIsToldWithTheWayOut(t *testing.T) {
	r := imagestest.New(t)
	digest := r.Random("engine:v1")
	for _, c := range []struct{ image, digest, want string }{
		{"cpu", "", "viiwork images build cpu"},
		{"viiwork-engine:vulkan", "", "viiwork images build vulkan"},
		{"cudda", "", "use one of cpu, cuda"},
		{r.Ref("engine:v2"), "", "check the name"},
		{r.Ref("engine:v1"), "latest", "64 hexadecimal digits"},
		{r.Ref("engine@" + digest), "sha256:" + strings.Repeat("1", 64), "give one of them"},
		{"UPPER/case:1", "", "image reference"},
		{"127.0.0.1:1/engine:v1", "", "check the network"},
	} {
		if _, err := newMachine(t, &daemon{}).pull(c.image, c.digest); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v; want %q", c.image, c.digest, err, c.want)
		}
	}
}

func TestRegistryThatHasEnoughIsNotAskedOn(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	r.Random("engine:v1")
	r.Full.Store(true)
	if _, err := newMachine(t, d).pull(r.Ref("engine:v1"), ""); err == nil || !strings.Contains(err.Error(), "try again later") || d.pulls > 0 {
		t.Errorf("error %v after %d pulls", err, d.pulls)
	}
}

func TestProgressGoesUpToTheEnd(t *testing.T) {
	r := imagestest.New(t)
	r.Random("engine:v1")
	m := newMachine(t, &daemon{})
	var last, total int64
	_, err := m.stock.Pull(t.Context(), images.Order{Image: r.Ref("engine:v1"), Tell: func(done, all int64) {
		if done < last || done > all {
			t.Errorf("%d of %d after %d", done, all, last)
		}
		last, total = done, all
	}})
	if err != nil {
		t.Fatal(err)
	}
	if last != total || total < 3*256<<10 {
		t.Errorf("ended at %d of %d bytes", last, total)
	}
}

// TestSizesThatNoImageHasAreRefused: sums of them would wrap, and a progress bar with them.
func TestSizesThatNoImageHasAreRefused(t *testing.T) {
	for _, size := range []int64{1 << 62, 1<<43 + 1} {
		r, d := imagestest.New(t), &daemon{}
		m := newMachine(t, d)
		_, err := m.pull(r.Ref("engine@"+r.Claiming("engine:v1", size)), "")
		if err == nil || !strings.Contains(err.Error(), "more than any image") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if d.pulls > 0 || len(m.kept()) > 0 {
			t.Error("it was fetched")
		}
	}
}

// TestASilentRegistryIsNotWaitedForAllDay, nor is it mistaken for the owner's own end.
func TestASilentRegistryIsNotWaitedForAllDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := images.OpenBook(filepath.Join(t.TempDir(), "images.json"))
		if err != nil {
			t.Fatal(err)
		}
		stock := images.New(images.Config{Docker: &daemon{}, Book: book, Transport: silent{}})
		_, err = stock.Pull(t.Context(), images.Order{Image: "192.0.2.1/engine:v1"})
		if err == nil || !strings.Contains(err.Error(), "has not answered within 2m") || !strings.Contains(err.Error(), "try again") {
			t.Error(err)
		}
	})
}

// silent takes questions and answers none.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
