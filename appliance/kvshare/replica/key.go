package replica

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Key is all that must be equal for a state of one engine to be restored in another. Keys are comparable.
type Key struct {
	Model  string // digest of the model file
	Build  string // the engine's build, as it says itself
	CacheK string // type of the K cache, as "f16"
	CacheV string // type of the V cache
	Slots  int    // slots of an engine whose cache is split between them; 0 = one cache for all, and then their number is free
	Flash  bool   // flash attention, on which hangs how V is stored
}

const (
	keyFields   = 6
	maxKeyField = 128 // bytes
	maxKey      = 512 // bytes of the text form
	maxSlots    = 1024
)

// ErrKey is what is wrong with a key that no engine of ours can have.
var ErrKey = errors.New("no key of a replica")

// Validate reports a field that is empty, too long or not plain text.
func (k Key) Validate() error {
	for _, f := range []string{k.Model, k.Build, k.CacheK, k.CacheV} {
		if f == "" || len(f) > maxKeyField || strings.ContainsFunc(f, unfit) {
			return fmt.Errorf("%w: a field of %d bytes is empty, long or not plain", ErrKey, len(f))
		}
	}
	if k.Slots < 0 || k.Slots > maxSlots {
		return fmt.Errorf("%w: %d slots", ErrKey, k.Slots)
	}
	return nil
}

// unfit characters would end a field of the text form, or a line of a log.
func unfit(r rune) bool { return r < ' ' || r > '~' || r == '|' }

// String is the text form, from which [ParseKey] makes the same key: fields between bars.
func (k Key) String() string {
	return strings.Join([]string{k.Model, k.Build, k.CacheK, k.CacheV, strconv.Itoa(k.Slots), strconv.FormatBool(k.Flash)}, "|")
}

// ParseKey reads the text form. Its errors are [ErrKey].
func ParseKey(text string) (Key, error) {
	if len(text) > maxKey {
		return Key{}, fmt.Errorf("%w: %d bytes", ErrKey, len(text))
	}
	f := strings.Split(text, "|")
	if len(f) != keyFields {
		return Key{}, fmt.Errorf("%w: %d fields", ErrKey, len(f))
	}
	slots, err := strconv.Atoi(f[4])
	if err != nil {
		return Key{}, fmt.Errorf("%w: slots are no number", ErrKey)
	}
	k := Key{Model: f[0], Build: f[1], CacheK: f[2], CacheV: f[3], Slots: slots, Flash: f[5] == "true"}
	if k.String() != text {
		return Key{}, fmt.Errorf("%w: not as it is written", ErrKey)
	}
	return k, k.Validate()
}

// Digest stands for the key where its text is too long.
func (k Key) Digest() [16]byte {
	sum := sha256.Sum256([]byte("viiwork replica key 1|" + k.String()))
	return [16]byte(sum[:])
}
