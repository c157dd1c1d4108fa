package config

import (
	"fmt"
	"slices"
	"strings"
)

// source remembers where each value was written. Its zero value, of a Config built in code, knows nothing.
type source struct {
	file      string
	positions map[string]Position // of every key in the file or the environment, sections too
	planned   map[string]bool     // keys whose value was worked out for this machine
	warnings  []string
}

// File is the name of the file as it was given to Load.
func (c *Config) File() string { return c.src.file }

// String keeps a printed Config from spilling its values.
func (c *Config) String() string {
	return fmt.Sprintf("configuration of %s (%s)", c.Node.Name, c.src.file)
}

// Warnings says what was accepted but does not do what its writer expects.
func (c *Config) Warnings() []string { return slices.Clone(c.src.warnings) }

// Pos is where key (models[0].path) was written, or else the nearest section around it, or else the file's beginning.
func (c *Config) Pos(key string) Position {
	for key != "" {
		if p, ok := c.src.positions[key]; ok {
			return p
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return Position{File: c.src.file, Line: 1, Column: 1}
}

// Fault makes a fault at key's position, for rules that are judged elsewhere.
func (c *Config) Fault(key, format string, args ...any) Fault {
	p := c.Pos(key)
	return Fault{File: p.File, Line: p.Line, Column: p.Column, Key: key, Message: fmt.Sprintf(format, args...)}
}

// IsSet reports whether key has a value from the file or the environment.
func (c *Config) IsSet(key string) bool {
	_, ok := c.src.positions[key]
	return ok
}

// PromptCacheKey is the key of models[i]'s prompt cache.
func PromptCacheKey(i int) string { return fmt.Sprintf("models[%d].llamacpp.prompt_cache", i) }

// PlanPromptCache takes what was worked out for models[i] on this machine. What the owner wrote stays.
func (c *Config) PlanPromptCache(i int, bytes int64) {
	key := PromptCacheKey(i)
	if c.IsSet(key) {
		return
	}
	if c.src.planned == nil {
		c.src.planned = map[string]bool{}
	}
	c.Models[i].Llamacpp.PromptCache, c.src.planned[key] = bytes, true
}

func (c *Config) warn(format string, args ...any) {
	c.src.warnings = append(c.src.warnings, fmt.Sprintf(format, args...))
}
