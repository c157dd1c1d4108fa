package images_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"viiwork/images"
)

func TestCatalogueInventsNothing(t *testing.T) {
	text, err := os.ReadFile("catalogue.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := images.ReadCatalogue(text)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if len(e.Verified) > 0 && !slices.Equal(e.GPUs, []string{"none"}) {
			t.Errorf("%s claims to have run on %v", e.Name, e.Verified)
		}
		if strings.HasPrefix(e.Reference, images.Local) && !slices.Contains(images.Recipes(), e.Name) {
			t.Errorf("%s is to be made here, and there is no recipe", e.Name)
		}
	}
	if want := []string{"cpu", "cuda", "rocm", "rocm-gfx906", "vulkan"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
}

func TestCatalogueWithFaultsIsRefused(t *testing.T) {
	good := "- {name: a, reference: 'example/a:1', gpus: [none], build: b, licence: MIT}\n"
	for text, want := range map[string]string{
		good:        "",
		good + good: "a second a",
		strings.Replace(good, "MIT", "MIT, digset: x", 1):                                                                   "digset",
		strings.Replace(good, "name: a", "name: a/b", 1):                                                                    "short name",
		strings.Replace(good, "licence: MIT", "note: x", 1):                                                                 "licence",
		strings.Replace(good, "MIT", "MIT, digest: sha256:", 1):                                                             "",
		strings.Replace(good, "example/a:1", "Example/A:1", 1):                                                              "reference",
		strings.Replace(good, "example/a:1", "viiwork-engine:a", 1) + strings.Replace(good, "example/a:1", "a@sha256:1", 1): "key of its own",
	} {
		entries, err := images.ReadCatalogue([]byte(text))
		if text == good {
			if err != nil || len(entries) != 1 {
				t.Errorf("a good one: %v, %v", entries, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestPinnedEntryIsRunByItsDigest(t *testing.T) {
	e := images.Entry{Reference: "example/a:1", Digest: "sha256:" + strings.Repeat("a", 64)}
	if got := e.Ref(); got != "example/a:1@"+e.Digest {
		t.Errorf("Ref = %s", got)
	}
}

// FuzzCatalogue: a text is refused, or all its images can be named and run.
func FuzzCatalogue(f *testing.F) {
	f.Add([]byte("- {name: x, reference: 'a/b:1', digest: '', gpus: [cpu], build: b1, licence: MIT}\n"))
	f.Add([]byte("- &a {name: x}\n- *a\n"))
	f.Add([]byte("[[[[[[[["))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := images.ReadCatalogue(text)
		if err != nil && len(entries) > 0 {
			t.Fatalf("%d entries with %v", len(entries), err)
		}
		for _, e := range entries {
			if e.Name == "" || e.Ref() == "" || e.Build == "" || len(e.GPUs) == 0 {
				t.Fatalf("%+v", e)
			}
		}
	})
}
