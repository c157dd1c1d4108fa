package appliance_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows is the house plan: which of our packages a package may import. A room not named here may import none of ours.
// "x/..." stands for x and everything below it; the command may import everything.
var arrows = map[string][]string{
	"appliance": {"appliance/config", "appliance/gateway", "appliance/mesh", "appliance/kvshare/...", "appliance/modelcopy", "appliance/releases", "appliance/imagecopy", "appliance/setup", "appliance/status",
		"appliance/history", "appliance/access", "appliance/route", "tsnode", "serf", "engine/...", "update", "update/rollout", "ui/...", "images/..."},
	"appliance/faults":       {"appliance", "appliance/config", "appliance/status"},
	"appliance/gateway":      {"appliance/route", "appliance/mesh", "engine", "appliance/kvshare", "appliance/access", "appliance/status"},
	"appliance/mesh":         {"appliance/route", "appliance/status"},
	"appliance/kvshare":      {"engine", "appliance/mesh", "appliance/route", "appliance/status", "appliance/kvshare/..."},
	"appliance/modelcopy":    {"appliance/mesh"},
	"appliance/releases":     {"appliance/mesh", "update"},
	"appliance/imagecopy":    {"appliance/mesh", "images", "images/papers"},
	"appliance/setup":        {"appliance/config", "engine", "engine/...", "images", "appliance/mesh", "appliance/status", "tsnode"},
	"appliance/setup/accept": {"appliance/status"},
	"appliance/setup/wizard": {"appliance/setup", "appliance/config", "appliance/mesh", "appliance/status", "engine", "engine/...", "images", "tsnode"},
	"appliance/bench":        {"appliance/status", "appliance/route/sim"},
	"appliance/route/sim":    {"appliance/route"},
	"appliance/history":      {"appliance/status"},
	"appliance/access":       {"appliance/status"},
	"images":                 {"images/papers"},
	"update/install":         {"update"},
	"update/swap":            {"update", "update/install"},
	"ui/web":                 {"appliance/status"},
	"ui/top":                 {"appliance/status"},
	"engine/plan":            {"engine", "engine/gpu", "engine/gguf"},
	"engine/docker":          {"engine"},
	"engine/native":          {"engine"},
	"engine/llama":           {"engine"},
	"engine/gpu":             {"engine"},
	"engine/gguf":            {"engine"},
	"engine/enginetest":      {"engine"},

	"appliance/kvshare/store":    {"appliance/kvshare/replica"},
	"appliance/kvshare/transfer": {"appliance/mesh", "appliance/kvshare/replica"},
}

// gates names foreign packages that only some rooms may know.
var gates = map[string][]string{
	"tailscale.com":                              {"tsnode"},
	"github.com/hashicorp":                       {"serf"},
	"github.com/docker":                          {"engine/docker"},
	"github.com/moby":                            {"engine/docker"},
	"github.com/sigstore":                        {"update"},
	"github.com/sigstore/sigstore-go/pkg/sign":   {"update/updatetest"},
	"github.com/theupdateframework":              {"update"},
	"github.com/google/go-containerregistry":     {"update", "images"},
	"github.com/labstack/echo":                   {"appliance/gateway", "appliance/mesh", "ui/web", "appliance"},
	"github.com/gpustack/gguf-parser-go":         {"engine/gguf"},
	"github.com/PlakarKorp/go-cdc-chunkers":      {"appliance/kvshare/replica"},
	"github.com/spf13/cobra":                     {"appliance/viiwork"},
	"go.yaml.in/yaml":                            {"appliance/config", "appliance/setup", "images"},
	"github.com/prometheus/client_golang":        {"appliance"},
	"github.com/rogpeppe/go-internal/testscript": {"appliance/viiwork"},
	"go.opentelemetry.io":                        {"appliance"},
	"charm.land":                                 {"ui/top", "appliance/setup"},
	"github.com/charmbracelet":                   {"ui/top", "appliance/setup"},
}

// TestArrows reads the imports of every Go file and fails on any arrow that the plan does not have.
func TestArrows(t *testing.T) {
	for file, imports := range importsBelow(t, "..") {
		room := filepath.ToSlash(filepath.Dir(file))
		isTest := strings.HasSuffix(file, "_test.go")
		for _, path := range imports {
			if own, ok := strings.CutPrefix(path, "viiwork/"); ok {
				if !mayImport(room, own, isTest) {
					t.Errorf("%s imports %s: no such arrow; see ARCHITECTURE.md, Rooms", file, path)
				}
				continue
			}
			if isTest {
				continue // what a test links does not ship
			}
			for gate, rooms := range gates {
				if (path == gate || strings.HasPrefix(path, gate+"/")) && !within(rooms, room) {
					t.Errorf("%s imports %s, which only %v may", file, path, rooms)
				}
			}
		}
	}
}

// TestArrowsCanFail holds the rules themselves against arrows that must not be.
func TestArrowsCanFail(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test     bool
	}{
		{"engine", "appliance/status", false},
		{"engine/llama", "engine/docker", false},
		{"appliance/gateway", "appliance/config", false},
		{"appliance/status", "engine", false},
		{"appliance/gateway", "engine/enginetest", false},
		{"images", "engine", false},
		{"appliance/viiwork", "update/updatetest", false},
		{"update", "update/install", false},
		{"update/install", "appliance/status", false},
		{"update/swap", "engine/docker", false},
		{"tsnode", "serf", true},
	} {
		if mayImport(c.from, c.to, c.test) {
			t.Errorf("the plan lets %s import %s", c.from, c.to)
		}
	}
	if !mayImport("appliance/viiwork", "engine/enginetest", false) || !mayImport("engine", "engine/enginetest", true) {
		t.Error("the plan refuses an arrow it must have")
	}
}

// mayImport reports whether room may import our package own. Test files may also use their own room, the test kits and
// whatever their room's importers could hand them, so they are only kept out of rooms above their own.
func mayImport(room, own string, test bool) bool {
	if own == "update/updatetest" && room != own {
		return test // it signs whatever it is told to: not even the command may link it
	}
	if room == "appliance/viiwork" || room == own {
		return true
	}
	if own == "engine/enginetest" || own == "appliance/kvshare/replica/replicatest" || own == "tsnode/localcontrol" || own == "tsnode/headscaletest" || own == "images/imagestest" {
		return test
	}
	allowed := arrows[room]
	if test {
		allowed = append(slices.Clone(allowed), "engine/llama", "engine/native")
		if room == "update" || strings.HasPrefix(room, "update/") || room == "appliance" {
			allowed = append(allowed, "update/build")
		}
		if room == "appliance/gateway" || room == "appliance/mesh" || strings.HasPrefix(room, "engine") {
			allowed = append(allowed, "engine")
		}
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		tree, below := strings.CutSuffix(a, "/...")
		return a == own || below && (own == tree || strings.HasPrefix(own, tree+"/"))
	})
}

// within reports whether room is one of rooms or below one of them; "appliance" stands for itself alone.
func within(rooms []string, room string) bool {
	return slices.ContainsFunc(rooms, func(r string) bool {
		return room == r || r != "appliance" && strings.HasPrefix(room, r+"/")
	})
}

// importsBelow maps each Go file below root (relative to it) to its imports.
func importsBelow(t *testing.T, root string) map[string][]string {
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		found[rel] = nil
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			found[rel] = append(found[rel], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no Go file found")
	}
	return found
}

// TestHouseRules checks what a reader should be able to count on in every package: a comment, and files and functions
// of a size that can be read in one sitting.
func TestHouseRules(t *testing.T) {
	commented := map[string]bool{}
	for file := range importsBelow(t, "..") {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, filepath.Join("..", file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if lines := fset.Position(parsed.FileEnd).Line; lines > 600 {
			t.Errorf("%s has %d lines: what is hiding in it?", file, lines)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; lines > 80 {
				t.Errorf("%s: %s has %d lines: what is hiding in it?", file, f.Name.Name, lines)
			}
		}
		dir := filepath.Dir(file)
		commented[dir] = commented[dir] || parsed.Doc != nil
	}
	for dir, has := range commented {
		if !has {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}
