package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrMeshMode is what errors.Is finds when a configuration is right but for one thing: it neither opens the mesh nor
// has a secret, or both. That is a refusal by policy, not a slip in the file.
var ErrMeshMode = errors.New("the mesh is neither open nor secured")

// Position is where a value was written.
type Position struct {
	File         string // "env NAME" for the environment
	Line, Column int    // from 1; 0 = not in a file
}

func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Fault is one thing wrong with the configuration.
type Fault struct {
	File         string
	Line, Column int    // from 1; 0 = not in a file
	Key          string // dotted, such as models[0].path; "" = the file as a whole
	Message      string // ends with what to do

	kind faultKind
}

type faultKind int

const (
	faultFile   faultKind = iota
	faultSecret           // the mesh secret cannot be had or is not one
	faultMode             // open and secured, or neither
)

// Error reads file:line:column: key: message.
func (f Fault) Error() string {
	parts := []string{Position{f.File, f.Line, f.Column}.String(), f.Key, f.Message}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// Faults is everything wrong with the configuration, in the order of the file, the environment last.
type Faults []Fault

// Error has one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Is finds ErrMeshMode only where nothing else is wrong: a slip in the file comes first.
func (fs Faults) Is(target error) bool {
	return target == ErrMeshMode && fs.all(func(k faultKind) bool { return k == faultMode })
}

func (fs Faults) all(ok func(faultKind) bool) bool {
	return len(fs) > 0 && !slices.ContainsFunc(fs, func(f Fault) bool { return !ok(f.kind) })
}

func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		inFile := func(f Fault) int { return min(f.Line, 1) }
		return cmp.Or(-cmp.Compare(inFile(a), inFile(b)), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
}

// maxFaults bounds what a hostile file can make us say.
const maxFaults = 100

// faultList collects faults up to that bound.
type faultList struct{ faults Faults }

func (l *faultList) full() bool { return len(l.faults) >= maxFaults }

func (l *faultList) add(f Fault) {
	if !l.full() {
		l.faults = append(l.faults, f)
	}
}

// err is nil without faults.
func (l *faultList) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	l.faults.sort()
	return l.faults
}
