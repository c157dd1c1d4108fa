package build

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// part is a module that a program was linked from.
type part struct{ path, version, sum string }

// partsOf adds what the program at path says of itself.
func partsOf(path string, parts map[part]bool) error {
	made, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading what a program was made of: %w", err)
	}
	for _, m := range made.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts[part{m.Path, m.Version, m.Sum}] = true
	}
	return nil
}

// component, bom and the rest are as much of CycloneDX 1.6 as a list of Go modules needs. There is no serial number: it
// would be another one each time.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []sum      `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type sum struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type bom struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

// partsList is the list of parts of all platforms' programs together, in an order of its own.
func (r Record) partsList(parts map[part]bool) ([]byte, error) {
	doc := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: []component{}}
	doc.Metadata.Timestamp = r.Built
	self := component{Type: "application", Ref: "viiwork@" + r.Version, Name: "viiwork", Version: r.Version, PURL: "pkg:golang/viiwork@" + r.Version}
	for _, platform := range sorted(r.Platforms) {
		self.Hashes = append(self.Hashes, sum{"SHA-256", r.Platforms[platform].Program})
	}
	self.Properties = []property{{"viiwork:commit", r.Commit}, {"viiwork:toolchain", r.Toolchain}}
	doc.Metadata.Component = self
	all := slices.SortedFunc(maps.Keys(parts), func(a, b part) int {
		return strings.Compare(a.path+"@"+a.version, b.path+"@"+b.version)
	})
	for _, p := range all {
		purl := "pkg:golang/" + p.path + "@" + strings.ReplaceAll(p.version, "+", "%2B")
		c := component{Type: "library", Ref: purl, Name: p.path, Version: p.version, PURL: purl}
		if p.sum != "" {
			c.Properties = []property{{"go:sum", p.sum}}
		}
		doc.Components = append(doc.Components, c)
	}
	toolchain := "pkg:golang/std@" + strings.TrimPrefix(r.Toolchain, "go")
	doc.Components = append(doc.Components, component{Type: "library", Ref: toolchain, Name: "std", Version: r.Toolchain, PURL: toolchain})
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the list of parts: %w", err)
	}
	return append(text, '\n'), nil
}
