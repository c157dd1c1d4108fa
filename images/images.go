// Package images knows the engine images that a model's configuration may name in short.
//
// None of the GPU images has been tried on hardware by us: the list says where llama.cpp's own project publishes a
// server for a family of cards. The references are moving tags. Nothing is pulled here.
package images

import (
	"fmt"
	"strings"
)

const upstream = "ghcr.io/ggml-org/llama.cpp:"

// gfx906 has no reference to stand for it: upstream's ROCm image starts at gfx908, and the third party that builds for
// the older cards publishes a tag per build and none that stays.
const gfx906 = "rocm-gfx906"

// known lists short names and references, in the order the owner is told.
func known() [][2]string {
	return [][2]string{
		{"cpu", "viiwork-engine:cpu"}, // made on this machine from Debian's packages, see images/cpu; no registry has it
		{"cuda", upstream + "server-cuda"},
		{"rocm", upstream + "server-rocm"},
		{"vulkan", upstream + "server-vulkan"},
	}
}

// Resolve turns a short name into an image reference. A name with a slash, a colon or a digest is one already and
// passes as it is.
func Resolve(name string) (string, error) {
	if strings.ContainsAny(name, "/:@") {
		return name, nil
	}
	var names []string
	for _, image := range known() {
		if image[0] == name {
			return image[1], nil
		}
		names = append(names, image[0])
	}
	if name == gfx906 {
		return "", fmt.Errorf("image %s has no fixed tag: write out a build, as mixa3607/llama.cpp-gfx906:<build>-rocm-7.14, or use vulkan", name)
	}
	return "", fmt.Errorf("unknown image %q: use one of %s, or a full reference such as %sserver-cuda",
		name, strings.Join(names, ", "), upstream)
}
