package engine

import (
	"context"
	"errors"
	"time"
)

// SlotFiles is what a [Dialect] adds whose engine can write what a slot holds to a file and read it back. Files are plain
// names in the folder the engine was given for them ([Options.SlotDir]).
//
// Save and Restore stop everything the engine does for anybody for as long as they take, and one that is asked for a busy
// slot happens when that slot is idle. ctx ends the wait; what was asked may be done all the same.
type SlotFiles interface {
	// Save writes a slot to a file. A slot that holds nothing is an error.
	Save(ctx context.Context, t Target, slot int, file string) (SlotFile, error)
	// Restore fills a slot from a file in place of what it held. When it fails the slot is empty.
	Restore(ctx context.Context, t Target, slot int, file string) (SlotFile, error)
	// Traits reads from an engine's arguments and variables what must be equal for a file of one to suit another; what
	// only the engine itself can say is left zero.
	Traits(b Build, args []string, env map[string]string) KVTraits
}

// SlotFile is what an engine says of a file it wrote or read.
type SlotFile struct {
	Tokens int           // at least 1
	Bytes  int64         // of the file
	Took   time.Duration // in the engine, the wait for the slot not counted: for so long it did nothing else
}

// KVTraits are what must be equal, beside the model itself, for the file of a slot to be of use in another engine.
type KVTraits struct {
	Build string // the engine's own build string
	TypeK string // of the cache: f16, q8_0
	TypeV string
	// Unified says that one pool serves all slots. Then the number of slots need not be equal.
	Unified bool
	Slots   int
	Flash   bool // flash attention: without it V is stored the other way round
	// Alters is a digest of the owner's flags that change what the model computes, such as adapters and rope scaling: its
	// files are read without complaint by an engine without them, and wrong there. "" = none.
	Alters string
}

// Errors of saving and restoring. Callers branch on them with errors.Is.
var (
	// ErrNoSlotFiles: the engine has no folder for slot files, or cannot save slots of this model at all.
	ErrNoSlotFiles = errors.New("this engine saves no slots")
	// ErrSlotRefused: the engine is well and did not do it. A restore has left the slot empty.
	ErrSlotRefused = errors.New("the engine refused")
)
