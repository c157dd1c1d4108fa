// Package build makes releases, the same ones everywhere: whoever has the commit and the Go toolchain that its build.json
// names gets the same programs, the same images and the same index, bit for bit.
//
// All that goes into a release is in the source tree at one commit, but for the version and the publisher's name. The
// environment of whoever builds reaches the compiler only as far as build.json lets it: no flag, no experiment, no
// configuration file of the Go command, no time zone. Archives are written by this package alone, without names, times
// or owners of the machine.
//
// Not promised: the same bytes from another Go release. Its compiler and its gzip may differ, which is why the toolchain
// is fixed to the last digit, and why a comparison tells programs, contents and archives apart.
//
// Functions here may be called from any goroutine; two builds need two output directories.
package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// recipeFile is where a source tree says how it is built.
const recipeFile = "update/build/build.json"

// recipe is build.json.
type recipe struct {
	Toolchain string            `json:"toolchain"` // "go1.26.8", exactly
	Package   string            `json:"package"`
	Tags      []string          `json:"tags"`
	LDFlags   []string          `json:"ldflags"`
	Flags     []string          `json:"flags"`
	Env       map[string]string `json:"env"`
	Platforms []string          `json:"platforms"` // sorted
}

var (
	toolchains = regexp.MustCompile(`^go1\.[0-9]+\.[0-9]+$`)
	platforms  = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+$`)
)

func loadRecipe(source string) (recipe, error) {
	var r recipe
	text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(recipeFile)))
	if err != nil {
		return r, fmt.Errorf("reading how to build: %w: say --source DIR of a checkout", err)
	}
	doc := json.NewDecoder(bytes.NewReader(text))
	doc.DisallowUnknownFields()
	if err := doc.Decode(&r); err != nil {
		return r, fmt.Errorf("reading %s: %w", recipeFile, err)
	}
	if !toolchains.MatchString(r.Toolchain) || len(r.Platforms) == 0 {
		return r, fmt.Errorf("reading %s: it must name an exact toolchain, as go1.26.8, and platforms", recipeFile)
	}
	for _, p := range r.Platforms {
		if !platforms.MatchString(p) {
			return r, fmt.Errorf("reading %s: %q is no platform", recipeFile, p)
		}
	}
	return r, nil
}

// Release is what a release is one of. All of it is stamped into the program.
type Release struct {
	Version   string    // v1.2.3
	Commit    string    // 40 hex digits
	Built     time.Time // the commit's time, not the clock's
	Publisher string    // github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml; "" = none, and it never updates itself
}

var (
	versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	commits  = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
	names    = regexp.MustCompile(`^(github\.com/[\w.-]+/[\w.-]+/\.github/workflows/[\w.-]+)?$`)
)

func (r Release) check() error {
	switch {
	case !versions.MatchString(r.Version):
		return fmt.Errorf("%q is no version: write it as v1.2.3", r.Version)
	case !commits.MatchString(r.Commit):
		return fmt.Errorf("%q is no commit", r.Commit)
	case !names.MatchString(r.Publisher):
		return fmt.Errorf("%q is no publisher: write it as github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml", r.Publisher)
	case r.Built.IsZero():
		return errors.New("the commit has no time")
	}
	return nil
}

func (r Release) built() string { return r.Built.UTC().Format(time.RFC3339) }

// stamps are the linker's -X flags.
func (r Release) stamps() []string {
	flags := []string{"-X main.version=" + r.Version, "-X main.commit=" + r.Commit, "-X main.built=" + r.built()}
	if r.Publisher != "" {
		flags = append(flags, "-X main.publisher="+r.Publisher)
	}
	return flags
}

// arguments of the Go command for one program.
func (r recipe) arguments(rel Release, out string) []string {
	args := append([]string{"build"}, r.Flags...)
	if len(r.Tags) > 0 {
		args = append(args, "-tags", strings.Join(r.Tags, ","))
	}
	return append(args, "-ldflags", strings.Join(append(append([]string{}, r.LDFlags...), rel.stamps()...), " "), "-o", out, r.Package)
}
