package serf

import (
	"fmt"
	"strconv"
	"time"
)

// What a node says about itself in gossip, as strings by name. Small for a reason: all of it must fit into maxTags
// bytes, travels with every change, and longer news goes over HTTP.
const (
	tagName    = "name"
	tagAPI     = "api"     // IP:port
	tagVersion = "version" // of the program
	tagWire    = "wire"    // version of the wire forms
	tagSince   = "since"   // start, in milliseconds of Unix time by the node's own clock
)

// maxTags is what the protocol has room for, encoded. More would be refused when gossip starts.
const maxTags = 512

// longestSince is as long as a start time gets.
var longestSince = time.UnixMilli(9_999_999_999_999)

type tags map[string]string

// tags of this node when started at start.
func (cfg Config) tags(start time.Time) tags {
	return tags{
		tagName:    cfg.Name,
		tagAPI:     cfg.API.String(),
		tagVersion: cfg.Version,
		tagWire:    strconv.Itoa(cfg.Wire),
		tagSince:   strconv.FormatInt(start.UnixMilli(), 10),
	}
}

// fit returns an error that names the largest tag when they are too large together.
func (t tags) fit() error {
	size, largest := t.size(), ""
	for key, value := range t {
		if len(value) > len(t[largest]) {
			largest = key
		}
	}
	if size > maxTags {
		return fmt.Errorf("the tag %q has %d bytes, which makes all tags %d: they have room for %d, so shorten it",
			largest, len(t[largest]), size, maxTags)
	}
	return nil
}

// size is the number of bytes of t in gossip: a mark, a MessagePack map of fewer than 16 pairs, and its strings, whose
// length takes one byte up to 31 and three from there on.
func (t tags) size() int {
	n := 2
	for key, value := range t {
		n += stringSize(key) + stringSize(value)
	}
	return n
}

func stringSize(s string) int {
	if len(s) < 32 {
		return 1 + len(s)
	}
	return 3 + len(s)
}
