package images_test

import (
	"context"
	"errors"
	"testing"

	"viiwork/images"
	"viiwork/images/imagestest"
)

func TestListTellsWhatIsHere(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	digest := r.Random("engine:v1")
	r.Random("engine:v2")
	m := newMachine(t, d)
	for _, image := range []string{"engine:v1", "engine:v2"} {
		if _, err := m.pull(r.Ref(image), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.stock.Build(t.Context(), images.Making{Image: "vulkan"}); err != nil {
		t.Fatal(err)
	}
	d.name("viiwork-engine:cpu", "sha256:cc")
	gone, _ := openBook(t, m.path).Find(r.Ref("engine:v2"))
	d.forget(gone.ID)
	list, err := m.stock.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]images.Listed{}
	for _, l := range list {
		got[l.Reference] = l
	}
	for ref, want := range map[string]images.State{
		"viiwork-engine:cpu":                            images.Unchecked,
		"ghcr.io/ggml-org/llama.cpp:server-cuda":        images.Absent,
		"index.docker.io/library/viiwork-engine:vulkan": images.Made,
		r.Ref("engine:v1"):                              images.Checked,
		r.Ref("engine:v2"):                              images.Gone,
	} {
		if got[ref].State != want {
			t.Errorf("%s is %q, want %q", ref, got[ref].State, want)
		}
	}
	if got[r.Ref("engine:v1")].Digest != digest || len(list) != 8 {
		t.Errorf("%d listed: %+v", len(list), list)
	}
}

func TestListIsThereWithoutDocker(t *testing.T) {
	book := newMachine(t, &daemon{}).book
	list, err := images.New(images.Config{Docker: dead{}, Book: book}).List(t.Context())
	if err == nil || len(list) != 5 || list[0].State != images.Unknown {
		t.Errorf("%d listed, %v", len(list), err)
	}
}

// dead is a Docker that does not answer.
type dead struct{ images.Daemon }

func (dead) ImageID(context.Context, string) (string, error) { return "", errors.New("no Docker") }
