package kvshare

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/store"
	"viiwork/appliance/mesh"
)

// maxNote is the bytes of the longest note: MaxChain links and their marks.
const maxNote = 64 << 10

// note is what is remembered of a replica beside its bytes: keyed digests, no text.
type note struct {
	Model   string      `json:"model"`
	Session string      `json:"session,omitempty"`
	Source  string      `json:"source,omitempty"`
	Key     string      `json:"key"`
	Chain   []mesh.Link `json:"chain"`
	Marks   []int       `json:"marks"`
	Tokens  int         `json:"tokens"`
}

func (s *Share) notePath(name store.Name) string {
	return filepath.Join(s.cfg.Notes, string(name)+".json")
}

// note writes one. A replica without it is of no use after a restart, and no harm.
func (s *Share) note(name store.Name, key replica.Key, stay mesh.Resident) {
	data, err := json.Marshal(note{stay.Model, stay.Session, stay.Source, key.String(), stay.Chain, stay.Marks, stay.Tokens})
	if err == nil {
		err = s.writeNote(name, data)
	}
	if err != nil {
		s.log.Warn("a saved cache is forgotten at the next restart", "error", err)
	}
}

func (s *Share) writeNote(name store.Name, data []byte) error {
	if err := os.MkdirAll(s.cfg.Notes, 0o700); err != nil {
		return err
	}
	path := s.notePath(name)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync() // or a loss of power leaves an empty one in the place of the one before
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *Share) unnote(name store.Name) { _ = os.Remove(s.notePath(name)) }

// recall finds out which conversations the store's replicas are, and gives up those of which nothing is known.
func (s *Share) recall() {
	have := map[string]bool{}
	for _, r := range slices.Backward(s.store.List()) { // of many the last ones are told to members
		stay, err := s.readNote(r)
		if err != nil {
			s.log.Debug("a replica of which nothing is known is given up", "error", err)
			s.store.Drop(r.Name, r.Key)
			continue
		}
		have[string(r.Name)] = true
		s.mu.Lock()
		s.kept[r.Name] = stay
		s.mu.Unlock()
		s.cfg.Known.Store(stay)
	}
	entries, _ := os.ReadDir(s.cfg.Notes)
	for _, e := range entries {
		if name, isNote := strings.CutSuffix(e.Name(), ".json"); !isNote || !have[name] {
			_ = os.Remove(filepath.Join(s.cfg.Notes, e.Name()))
		}
	}
}

func (s *Share) readNote(r store.Replica) (mesh.Resident, error) {
	info, err := os.Lstat(s.notePath(r.Name))
	if err != nil {
		return mesh.Resident{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxNote {
		return mesh.Resident{}, fmt.Errorf("reading the note of a replica: it is no file of ours")
	}
	data, err := os.ReadFile(s.notePath(r.Name))
	if err != nil {
		return mesh.Resident{}, err
	}
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		return mesh.Resident{}, fmt.Errorf("reading the note of a replica: %w", err)
	}
	if n.Key != r.Key.String() || n.Model == "" || len(n.Chain) == 0 || len(n.Chain) != len(n.Marks) {
		return mesh.Resident{}, errors.New("reading the note of a replica: it is another's")
	}
	return mesh.Resident{
		Model: n.Model, Session: n.Session, Source: n.Source, Chain: n.Chain, Marks: n.Marks, Tokens: n.Tokens,
		Replica: string(r.Name), Active: r.LastUsed,
	}, nil
}
