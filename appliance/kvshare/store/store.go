package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"viiwork/appliance/kvshare/replica"
)

// Config is what a store needs to know.
type Config struct {
	Dir      string        // is made where it is missing
	Budget   int64         // bytes of all files
	KeepFree int64         // bytes of the disk that are left free; 0 = a twentieth of it, 1 GiB at least and 16 GiB at most
	MaxAge   time.Duration // a replica that was not used for so long is deleted; 0 = 24 h
	Linger   time.Duration // what came of a transfer that broke off is kept so long; 0 = 15 min
	Log      *slog.Logger
	Now      func() time.Time // nil = time.Now
}

// Errors that callers tell apart.
var (
	ErrNotFound   = errors.New("no such replica")
	ErrName       = errors.New("no name of a conversation")
	ErrDamaged    = errors.New("the replica is damaged and was thrown away")
	ErrTooLarge   = errors.New("the replica is larger than the store: raise kv_share.store")
	ErrNoRoom     = errors.New("the disk or the store has no room")
	ErrWrongChunk = errors.New("the bytes are not those of the chunk")
	ErrIncomplete = errors.New("chunks are missing")
)

// Name is the digest of a conversation: 1 to 64 hexadecimal digits in lower case.
type Name string

func (n Name) valid() bool {
	return n != "" && len(n) <= 64 && strings.Trim(string(n), "0123456789abcdef") == ""
}

// Replica is what is told of a replica.
type Replica struct {
	Name     Name
	Key      replica.Key
	Tokens   int
	Bytes    int64 // of the state; the disk may have to hold less, since chunks are shared
	LastUsed time.Time
}

// Usage is how full the store is.
type Usage struct {
	Bytes, Budget int64
	Replicas      int
}

// Store keeps replicas. Make it with [Open].
type Store struct {
	cfg      Config
	root     *os.Root
	packSize int64

	mu       sync.Mutex
	chunks   map[replica.Sum]*place // that are whole and have a holder
	packs    map[uint64]*pack
	replicas map[id]*kept
	leftover []leftover
	writing  map[id]int // saves and arrivals under way
	used     int64      // bytes of all files, and of those that writers were promised
	lastPack uint64
	lastTemp uint64
}

// id stands for a name and a key: it is the name of the replica's file.
type id [16]byte

func idOf(n Name, k replica.Key) id {
	key := k.Digest()
	sum := sha256.Sum256(append([]byte(n+"|"), key[:]...))
	return id(sum[:])
}

func (i id) file() string { return filepath.Join(replicaDir, hex.EncodeToString(i[:])) }

// kept is a replica and the chunks it holds.
type kept struct {
	Replica
	file   int64 // bytes of its own file
	places []*place
}

// leftover holds the chunks of a transfer that broke off.
type leftover struct {
	places []*place
	until  time.Time
}

const (
	packDir    = "packs"
	replicaDir = "replicas"

	mostPack  = 256 << 20
	leastPack = 1 << 20
	minKeep   = 1 << 30
	maxKeep   = 16 << 30
	tidyEvery = time.Minute
)

// Open reads what an earlier run kept and throws away what is broken. An error is one of the disk or of the folder itself.
func Open(c Config) (*Store, error) {
	c.MaxAge = cmp.Or(c.MaxAge, 24*time.Hour)
	c.Linger = cmp.Or(c.Linger, 15*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := errors.Join(os.MkdirAll(c.Dir, 0o700), os.Chmod(c.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("opening the store of replicas: %w", err)
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store of replicas: %w", err)
	}
	s := &Store{
		cfg: c, root: root, packSize: min(max(c.Budget/32, leastPack), mostPack), chunks: map[replica.Sum]*place{},
		packs: map[uint64]*pack{}, replicas: map[id]*kept{}, writing: map[id]int{},
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store of replicas: %w", err), s.Close())
	}
	return s, nil
}

// Run deletes what is too old and gives back the bytes of what was deleted, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(tidyEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.tidy(ctx)
		}
	}
}

// Close ends the use of the store. Readers that are open fail from then on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.packs {
		errs = append(errs, p.file.Close())
	}
	clear(s.packs)
	return errors.Join(append(errs, s.root.Close())...)
}

// Wipe removes a store and all that is in it. No process may have it open.
func Wipe(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the store of replicas: %w", err)
	}
	return nil
}

// Usage tells how full the store is.
func (s *Store) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Usage{s.used, s.cfg.Budget, len(s.replicas)}
}

// List gives all replicas, the one used last first.
func (s *Store) List() []Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Replica, 0, len(s.replicas))
	for _, k := range s.replicas {
		if !s.expired(k) {
			list = append(list, k.Replica)
		}
	}
	slices.SortFunc(list, func(a, b Replica) int {
		return cmp.Or(b.LastUsed.Compare(a.LastUsed), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return list
}

// Lacks lists the chunks of a manifest that are not here, each once, by their index.
func (s *Store) Lacks(m replica.Manifest) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lacks []int
	seen := map[replica.Sum]bool{}
	for i, c := range m.Chunks {
		if s.chunks[c.Sum] == nil && !seen[c.Sum] {
			seen[c.Sum] = true
			lacks = append(lacks, i)
		}
	}
	return lacks
}

// Touch says that a replica is of use still.
func (s *Store) Touch(n Name, k replica.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.replicas[idOf(n, k)]; r != nil && !s.expired(r) {
		s.touch(idOf(n, k), r)
	}
}

// touch keeps the time with the file, for the next run. Where that fails, an older time is kept.
func (s *Store) touch(i id, r *kept) {
	r.LastUsed = s.cfg.Now()
	if err := s.root.Chtimes(i.file(), r.LastUsed, r.LastUsed); err != nil {
		s.cfg.Log.Debug("a replica's time of use is not kept", "error", err)
	}
}

func (s *Store) expired(k *kept) bool { return s.cfg.Now().Sub(k.LastUsed) >= s.cfg.MaxAge }

// Drop deletes a replica, if it is there.
func (s *Store) Drop(n Name, k replica.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(idOf(n, k))
}

func (s *Store) drop(i id) {
	r := s.replicas[i]
	if r == nil {
		return
	}
	delete(s.replicas, i)
	s.used -= r.file
	if err := s.root.Remove(i.file()); err != nil {
		s.cfg.Log.Warn("a replica cannot be deleted", "file", filepath.Join(s.cfg.Dir, i.file()), "error", err)
	}
	s.release(r.places)
}
