package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// versionOne recognises a file of viiwork 1 by the keys only it had. Most of its other keys mean something else today
// (its context was of all slots together), so nothing of it is read.
func versionOne(name string, root *yaml.Node) *Fault {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	var first *yaml.Node
	var found []string
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		if !slices.Contains([]string{"server", "model", "gpus", "backend", "balancer", "peers"}, key.Value) {
			continue
		}
		if first == nil {
			first = key
		}
		if !slices.Contains(found, key.Value) {
			found = append(found, key.Value)
		}
	}
	if first == nil {
		return nil
	}
	return &Fault{File: name, Line: first.Line, Column: first.Column, Key: first.Value, Message: fmt.Sprintf(
		"this is a file of viiwork 1 (it has %s at the top level): rewrite it with 'viiwork config migrate', or as MIGRATING.md shows", strings.Join(found, ", "))}
}
