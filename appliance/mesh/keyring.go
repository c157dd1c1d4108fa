package mesh

import (
	"log/slog"
	"sync/atomic"
)

// Keyring holds the Keys that rule at this moment. Who signs and who verifies reads it anew for each request, so that
// the secret can be replaced while the node runs. It prints as a placeholder.
type Keyring struct{ keys atomic.Pointer[Keys] }

// NewKeyring makes a Keyring that holds k.
func NewKeyring(k Keys) *Keyring {
	r := &Keyring{}
	r.Store(k)
	return r
}

// orOpen is r, or the keys of an open mesh where there is none.
func (r *Keyring) orOpen() *Keyring {
	if r != nil {
		return r
	}
	open, _ := NewKeys(KeyConfig{}) // fails for secrets only
	return NewKeyring(open)
}

// Load gives the keys that rule now. They belong together: one request is judged by one load.
func (r *Keyring) Load() Keys { return *r.keys.Load() }

// Store makes k rule from the next request on.
func (r *Keyring) Store(k Keys) { r.keys.Store(&k) }

func (*Keyring) String() string       { return "(mesh keyring)" }
func (*Keyring) GoString() string     { return "(mesh keyring)" }
func (*Keyring) LogValue() slog.Value { return slog.StringValue("(mesh keyring)") }
