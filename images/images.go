package images

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Resolve turns a short name into an image reference. A name with a slash, a colon or a digest is one already and
// passes as it is.
func Resolve(short string) (string, error) {
	if strings.ContainsAny(short, "/:@") {
		return short, nil
	}
	var names []string
	for _, e := range known() {
		if e.Name == short {
			return e.Ref(), nil
		}
		names = append(names, e.Name)
	}
	return "", fmt.Errorf("unknown image %q: use one of %s, or a full reference such as ghcr.io/ggml-org/llama.cpp:server-cuda",
		short, strings.Join(names, ", "))
}

// canonical writes a reference in full, registry and tag included, so that one image has one place in the book.
func canonical(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("reading the image reference %q: %w", ref, err)
	}
	return parsed, nil
}
