package serf

import (
	"errors"
	"fmt"
	"strings"
)

// keySize of the gossip key, in bytes: AES-256.
const keySize = 32

// check reports every fault of cfg.
func (cfg Config) check() error {
	var faults []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	add(!validID(cfg.ID), "the id %.80q is not 1 to %d letters, digits, '.', '_' or '-'", cfg.ID, maxID)
	add(!validName(cfg.Name), "the name %.80q is not 1 to %d of a-z, 0-9 and '-': set node.name", cfg.Name, maxName)
	add(!cfg.API.IsValid() || cfg.API.Port() == 0, "no API address with a port given")
	add(!validVersion(cfg.Version), "the version is empty or has unprintable characters")
	add(cfg.Wire < 1, "the wire version %d is not 1 or more", cfg.Wire)
	add(cfg.Port < 0 || cfg.Port > 65535, "the port %d is not one: set mesh.bind_port", cfg.Port)
	add(len(cfg.Key) != 0 && len(cfg.Key) != keySize, "the key has %d bytes and not %d", len(cfg.Key), keySize)
	add(len(cfg.Prev) != 0 && len(cfg.Prev) != keySize, "the previous key has %d bytes and not %d", len(cfg.Prev), keySize)
	add(len(cfg.Prev) != 0 && len(cfg.Key) == 0, "a previous key without a key")
	add(!cfg.Enforce.valid(), "enforce is %.20q and not none, outgoing or full: set mesh.secret_enforce", string(cfg.Enforce))
	add(cfg.Network == nil, "no network given")
	if err := cfg.tags(longestSince).fit(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Lengths of what names a node, in bytes.
const (
	maxID   = 64
	maxName = 32
)

func validID(s string) bool {
	return len(s) >= 1 && len(s) <= maxID && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}) < 0
}

func validName(s string) bool {
	return len(s) >= 1 && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}) < 0
}

// validVersion accepts printable ASCII; how long it may be is a matter of what the tags have room for.
func validVersion(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) < 0
}

// Enforce says how strictly a key is demanded: the steps by which an open mesh becomes a secured one without a break.
type Enforce string

const (
	EnforceNone     Enforce = "none"     // understands encrypted gossip, sends and takes plain
	EnforceOutgoing Enforce = "outgoing" // sends encrypted, still takes plain
	EnforceFull     Enforce = "full"     // plain gossip is refused
)

func (e Enforce) valid() bool {
	return e == "" || e == EnforceNone || e == EnforceOutgoing || e == EnforceFull
}
