package images_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"viiwork/images"
)

func (d *daemon) Build(_ context.Context, folder io.Reader, tag string, args map[string]string, tell func(string)) error {
	for r := tar.NewReader(folder); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		d.built = append(d.built, h.Name)
	}
	tell("base is " + args["BASE"])
	if d.buildErr != nil {
		return d.buildErr
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name(tag, "sha256:"+strings.Repeat("b", 64))
	return nil
}

func TestWhatIsMadeHereIsStartedByItsID(t *testing.T) {
	for _, name := range images.Recipes() {
		d := &daemon{}
		m := newMachine(t, d)
		var told []string
		held, err := m.stock.Build(t.Context(), images.Making{Image: name, Args: map[string]string{"BASE": "mine"}, Tell: func(line string) { told = append(told, line) }})
		if err != nil || held.Digest != "" {
			t.Fatalf("%s: %+v, %v", name, held, err)
		}
		if pin, ok := openBook(t, m.path).Pin("viiwork-engine:" + name); !ok || pin != held.ID {
			t.Errorf("%s is pinned to %q, %t", name, pin, ok)
		}
		debian := name != "cuda" && name != "rocm"
		if !slices.Contains(d.built, "Dockerfile") || slices.Contains(d.built, "unpack.sh") != debian || !slices.Equal(told, []string{"base is mine"}) {
			t.Errorf("%s: files %v, told %q", name, d.built, told)
		}
	}
}

func TestFailedBuildKeepsNothing(t *testing.T) {
	m := newMachine(t, &daemon{buildErr: errors.New("no such base")})
	if _, err := m.stock.Build(t.Context(), images.Making{Image: "cpu"}); err == nil || !strings.Contains(err.Error(), "--unpack") {
		t.Errorf("error %v; want the way without a registry", err)
	}
	for _, m2 := range []images.Making{{Image: "cudda"}, {Image: "cuda", Unpack: true}} {
		if _, err := m.stock.Build(t.Context(), m2); err == nil {
			t.Errorf("%+v was made", m2)
		}
	}
	if kept := m.kept(); len(kept) > 0 {
		t.Errorf("kept %+v", kept)
	}
}
