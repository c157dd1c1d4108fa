package images

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v4"
)

//go:embed catalogue.yaml
var catalogueFile []byte

// Local is how the references begin of images that are made on this machine: no registry has them.
const Local = "viiwork-engine:"

// Entry is one image of the catalogue.
type Entry struct {
	Name      string   `yaml:"name"`
	Reference string   `yaml:"reference"`
	Digest    string   `yaml:"digest"` // of the manifest; "" = this release pins none
	GPUs      []string `yaml:"gpus"`
	Build     string   `yaml:"build"`
	Licence   string   `yaml:"licence"`
	Verified  []string `yaml:"verified"` // hardware this project has run it on; empty = none
	Note      string   `yaml:"note"`
}

// Ref is the reference to run: with the digest, if there is one.
func (e Entry) Ref() string {
	if e.Digest == "" {
		return e.Reference
	}
	return e.Reference + "@" + e.Digest
}

// Catalogue lists the images that have a short name, in the order the owner is told.
func Catalogue() []Entry { return known() }

// known reads the built-in file once. A file with a fault is ours to mend, and a test sees to it.
var known = sync.OnceValue(func() []Entry {
	entries, err := ReadCatalogue(catalogueFile)
	if err != nil {
		panic(err)
	}
	return entries
})

// ReadCatalogue reads a catalogue strictly: every fault is told at once.
func ReadCatalogue(text []byte) ([]Entry, error) {
	var entries []Entry
	if err := yaml.Load(text, &entries, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("reading the catalogue of images: %w", err)
	}
	var faults []error
	seen := map[string]bool{}
	for i, e := range entries {
		if err := e.check(); err != nil {
			faults = append(faults, fmt.Errorf("image %d (%s): %w", i+1, e.Name, err))
		}
		if seen[e.Name] {
			faults = append(faults, fmt.Errorf("image %d: a second %s", i+1, e.Name))
		}
		seen[e.Name] = true
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("reading the catalogue of images: %w", errors.Join(faults...))
	}
	return entries, nil
}

func (e Entry) check() error {
	switch {
	case e.Name == "" || strings.ContainsAny(e.Name, "/:@ "):
		return errors.New("a short name has no slash, colon, @ or blank, and is not empty")
	case strings.Contains(e.Reference, "@"):
		return errors.New("the digest has a key of its own")
	case e.Build == "" || e.Licence == "" || len(e.GPUs) == 0:
		return errors.New("build, licence and gpus must be told")
	case e.Digest != "" && strings.HasPrefix(e.Reference, Local):
		return errors.New("what is made on this machine has no digest")
	}
	if _, err := name.ParseReference(e.Reference); err != nil {
		return err
	}
	if e.Digest != "" {
		if _, err := v1.NewHash(e.Digest); err != nil {
			return err
		}
	}
	return nil
}
