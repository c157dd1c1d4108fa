package build

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options of Make.
type Options struct {
	Source    string // a clean checkout
	Out       string // an empty or missing directory; "" = dist/VERSION in Source
	Version   string
	Publisher string    // "" = none
	Progress  io.Writer // what the compiler says; nil = nowhere

	Said func(act string) // told what is begun, which may take minutes; nil = nobody is
}

func (o Options) say(act string) {
	if o.Said != nil {
		o.Said(act)
	}
}

// Record is what was made, in digests; it is written as release.json, and is what a rebuild is compared by.
type Record struct {
	Version   string            `json:"version"`
	Commit    string            `json:"commit"`
	Built     string            `json:"built"` // RFC 3339
	Publisher string            `json:"publisher"`
	Toolchain string            `json:"toolchain"`
	Index     string            `json:"index"` // sha256:…
	Platforms map[string]Levels `json:"platforms"`
}

// Make builds a release into o.Out: the OCI image layout, an archive for each platform with the same program, the list of
// parts (CycloneDX), SHA256SUMS of these files, and subjects.txt, which is what a proof must speak of.
func Make(ctx context.Context, o Options) (Record, error) {
	how, err := loadRecipe(o.Source)
	if err != nil {
		return Record{}, err
	}
	commit, at, err := Checkout(ctx, o.Source)
	if err != nil {
		return Record{}, err
	}
	rel := Release{Version: o.Version, Commit: commit, Built: at, Publisher: o.Publisher}
	if err := rel.check(); err != nil {
		return Record{}, err
	}
	if o.Out == "" {
		o.Out = filepath.Join(o.Source, "dist", o.Version)
	}
	if left, err := os.ReadDir(o.Out); err == nil && len(left) > 0 {
		return Record{}, fmt.Errorf("writing to %s: it is not empty: remove it or name another directory", o.Out)
	}
	programs, parts, err := how.programs(ctx, o, rel)
	if err != nil {
		return Record{}, err
	}
	o.say("packing " + o.Version)
	index, levels, err := Layout(o.Out, rel, programs)
	if err != nil {
		return Record{}, err
	}
	r := Record{rel.Version, rel.Commit, rel.built(), rel.Publisher, how.Toolchain, index, levels}
	return r, r.write(o.Out, programs, parts, licence(o.Source))
}

// programs compiles one after the other: each takes all cores there are.
func (r recipe) programs(ctx context.Context, o Options, rel Release) (map[string][]byte, map[part]bool, error) {
	dir, err := os.MkdirTemp("", "viiwork-build-")
	if err != nil {
		return nil, nil, fmt.Errorf("building: %w", err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil { // compilers run in the checkout
		return nil, nil, fmt.Errorf("building: %w", err)
	}
	programs, parts := map[string][]byte{}, map[part]bool{}
	for _, platform := range r.Platforms {
		o.say("building for " + platform)
		out := filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"))
		if err := r.compile(ctx, o, rel, platform, out); err != nil {
			return nil, nil, err
		}
		if err := partsOf(out, parts); err != nil {
			return nil, nil, err
		}
		if programs[platform], err = os.ReadFile(out); err != nil {
			return nil, nil, fmt.Errorf("building for %s: %w", platform, err)
		}
	}
	return programs, parts, nil
}

func licence(source string) []byte {
	text, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return nil
	}
	return text
}

// write adds what people download by hand.
func (r Record) write(dir string, programs map[string][]byte, parts map[part]bool, licence []byte) error {
	files := map[string][]byte{}
	for platform, program := range programs {
		entries := []entry{{"viiwork", 0o755, program}}
		if licence != nil {
			entries = append(entries, entry{"LICENSE", 0o644, licence})
		}
		plain, err := archive(entries)
		if err == nil {
			plain, err = compress(plain)
		}
		if err != nil {
			return fmt.Errorf("writing the archive for %s: %w", platform, err)
		}
		files[fmt.Sprintf("viiwork-%s-%s.tar.gz", r.Version, strings.ReplaceAll(platform, "/", "-"))] = plain
	}
	list, err := r.partsList(parts)
	if err != nil {
		return err
	}
	files["viiwork-"+r.Version+".cdx.json"] = list
	var sums, subjects strings.Builder
	fmt.Fprintf(&subjects, "%s  viiwork-%s-index\n", strings.TrimPrefix(r.Index, "sha256:"), r.Version)
	for _, platform := range sorted(programs) {
		fmt.Fprintf(&subjects, "%s  viiwork-%s-%s\n", r.Platforms[platform].Program, r.Version, strings.ReplaceAll(platform, "/", "-"))
	}
	for _, name := range sorted(files) {
		fmt.Fprintf(&sums, "%s  %s\n", hexSum(files[name]), name)
	}
	subjects.WriteString(sums.String())
	record, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files["SHA256SUMS"], files["subjects.txt"], files["release.json"] = []byte(sums.String()), []byte(subjects.String()), append(record, '\n')
	for _, name := range sorted(files) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return fmt.Errorf("writing the release: %w", err)
		}
	}
	return nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
