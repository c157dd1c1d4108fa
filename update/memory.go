package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
)

// memory is the newest version that was ever verified here, in a file of the state directory: who serves releases
// cannot lead a node back to one whose faults are known.
type memory struct {
	path string // "" = nothing is kept

	mu      sync.Mutex
	highest string
}

type memoryDoc struct {
	Highest string `json:"highest"`
}

// recallHighest reads it. A damaged file is an error: to pass it over would be the way back.
func recallHighest(stateDir string) (*memory, error) {
	if stateDir == "" {
		return &memory{}, nil
	}
	m := &memory{path: filepath.Join(stateDir, "update.json")}
	var err error
	m.highest, err = readHighest(m.path)
	return m, err
}

func readHighest(path string) (string, error) {
	text, err := readKept(path, 1<<12)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var doc memoryDoc
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err == nil {
		err = CheckVersion(doc.Highest)
	}
	if err != nil {
		return "", fmt.Errorf("reading the newest version seen: %s: %w: move the file away if you know that nothing newer was installed", path, err)
	}
	return doc.Highest, nil
}

func (m *memory) get() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highest
}

// raise notes a version that was verified; a lower one changes nothing.
func (m *memory) raise(version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path != "" { // another process may have raised it
		told, err := readHighest(m.path)
		if err != nil {
			return err
		}
		m.highest = newer(told, m.highest)
	}
	if m.highest != "" && newer(m.highest, version) == m.highest {
		return nil
	}
	if m.path != "" {
		text, err := json.Marshal(memoryDoc{version})
		if err != nil {
			return err
		}
		if err := writeFile(m.path, append(text, '\n')); err != nil {
			return fmt.Errorf("storing the newest version seen: %w", err)
		}
	}
	m.highest = version
	return nil
}
