package mesh

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sessionFile = "session-key"
	// sealedBytes is the size of a sealed key: a nonce, when it was made, the key, a tag.
	sealedBytes = 12 + 8 + secretBytes + 16
	// maxSealed bounds what a report may bring in its place.
	maxSealed = 256
)

// SessionKeyConfig is what a SessionKey is made of.
type SessionKeyConfig struct {
	StateDir string           // where it is kept; "" = nowhere
	Keys     *Keyring         // nil = those of an open mesh
	Log      *slog.Logger     // nil = silent
	Now      func() time.Time // nil = time.Now
}

// SessionKey is the key with which digests of session keys and prompts are made: the same on every node of the mesh, and the
// same after its secret was replaced, since all that nodes know of sessions would be worth nothing otherwise.
//
// The first one comes from the secret, so that nodes that start together need no word about it. When the secret is
// replaced the key stays. Who comes in later makes one from the new secret and is told better: each node's report
// brings its key, sealed with the mesh's secret, and of two the one that was made first counts. So all have the same
// before long in whatever order they meet, and a node that was in another mesh before brings nothing from there, as its
// file opens with that mesh's secret only. An open mesh has a key that is published, and keeps and tells none.
//
// It prints as a placeholder. Its methods may be called from any goroutine.
type SessionKey struct {
	cfg  SessionKeyConfig
	path string
	now  atomic.Pointer[madeKey]

	mu     sync.Mutex // guards what follows, and who writes the file and now
	under  []byte     // key that sealed is closed with
	sealed []byte
	said   bool // that the file cannot be written
}

// madeKey is never changed.
type madeKey struct {
	made int64 // milliseconds since 1970
	key  [secretBytes]byte
}

// before is the order in which keys count.
func (k *madeKey) before(o *madeKey) bool {
	return k.made < o.made || k.made == o.made && bytes.Compare(k.key[:], o.key[:]) < 0
}

// NewSessionKey makes the key from the secret. What an earlier run kept, Load reads.
func NewSessionKey(cfg SessionKeyConfig) *SessionKey {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Keys = cfg.Keys.orOpen()
	s := &SessionKey{cfg: cfg}
	if cfg.StateDir != "" {
		s.path = filepath.Join(cfg.StateDir, sessionFile)
	}
	first := &madeKey{made: cfg.Now().UnixMilli()}
	copy(first.key[:], cfg.Keys.Load().session)
	s.now.Store(first)
	return s
}

// Load reads the key of an earlier run, if the secret of this one or the one before it opens it. Call it once, before anything
// else and while no other process has the folder.
func (s *SessionKey) Load() {
	keys := s.cfg.Keys.Load()
	if s.path == "" || len(keys.seals) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sealed, err := readSealed(s.path)
	switch kept := keys.unseal(sealed); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		s.cfg.Log.Warn("the key of sessions that is kept here cannot be read; it comes from the other nodes, or anew", "file", s.path, "error", err)
	case kept != nil:
		s.now.Store(kept)
	}
	s.close(keys)
}

func readSealed(path string) ([]byte, error) {
	f, err := openKept(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key of sessions: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSealed))
	if err != nil {
		return nil, fmt.Errorf("reading the key of sessions: %w", err)
	}
	return b, nil
}

// Bytes gives the key. It is not changed by who has it.
func (s *SessionKey) Bytes() []byte {
	k := s.now.Load()
	if keys := s.cfg.Keys.Load(); len(keys.seals) == 0 {
		return keys.session
	}
	return k.key[:]
}

// tell gives the key for members to read, nil in an open mesh. It is closed anew, and kept, once the mesh has another secret.
func (s *SessionKey) tell() []byte {
	if s == nil {
		return nil
	}
	keys := s.cfg.Keys.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(keys.seals) > 0 && !bytes.Equal(s.under, keys.seals[0]) {
		s.close(keys)
	}
	if len(keys.seals) == 0 {
		return nil
	}
	return s.sealed
}

// learn takes over what a member told if that key is older.
func (s *SessionKey) learn(sealed []byte) {
	if s == nil || len(sealed) == 0 {
		return
	}
	keys := s.cfg.Keys.Load()
	told := keys.unseal(sealed)
	if told == nil || !told.before(s.now.Load()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.now.Load(); told.before(was) {
		s.now.Store(told)
		s.close(keys)
		if told.key != was.key {
			s.cfg.Log.Info("the key of sessions is the mesh's now; what was known of sessions begins anew")
		}
	}
}

// close seals the key with the secret that is used now, and keeps it so.
func (s *SessionKey) close(keys Keys) {
	s.under = keys.seals[0]
	s.sealed = keys.seal(s.now.Load())
	if s.path == "" {
		return
	}
	err := replaceFile(s.path, s.sealed)
	if err != nil && !s.said {
		s.cfg.Log.Warn("the key of sessions cannot be kept; after a restart it comes from the other nodes", "file", s.path, "error", err)
	}
	s.said = err != nil
}

// seal closes k with the secret in use, so that it can be told over plain HTTP.
func (k Keys) seal(m *madeKey) []byte {
	text := append(binary.BigEndian.AppendUint64(nil, uint64(m.made)), m.key[:]...)
	return sealer(k.seals[0]).Seal(nil, nil, text, []byte(labelSessionSeal))
}

// unseal opens what seal closed with any of the secrets that are understood, nil if none fits.
func (k Keys) unseal(sealed []byte) *madeKey {
	if len(sealed) != sealedBytes {
		return nil
	}
	for _, seal := range k.seals {
		text, err := sealer(seal).Open(nil, nil, sealed, []byte(labelSessionSeal))
		if err == nil {
			m := &madeKey{made: int64(binary.BigEndian.Uint64(text))}
			copy(m.key[:], text[8:])
			return m
		}
	}
	return nil
}

func (*SessionKey) String() string       { return "(session key)" }
func (*SessionKey) GoString() string     { return "(session key)" }
func (*SessionKey) LogValue() slog.Value { return slog.StringValue("(session key)") }
