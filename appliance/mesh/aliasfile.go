package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"viiwork/appliance/status"
)

// aliasDocument is the form of a table in its file and between nodes.
type aliasDocument struct {
	Aliases []Alias `json:"aliases"`
}

// aliasFrame is what a document has beside its entries, in bytes, and some.
const aliasFrame = 64

var errManyAliases = errors.New("reading aliases: there are more than any node keeps")

func encodeAliases(table map[string]Alias) []byte {
	list := sorted(table)
	if list == nil {
		list = []Alias{}
	}
	b, err := json.Marshal(aliasDocument{list})
	if err != nil { // cannot be: it holds only strings and numbers
		return nil
	}
	return append(b, '\n')
}

// size is what e takes in a document.
func (e Alias) size() int {
	b, err := json.Marshal(e)
	if err != nil {
		return 0
	}
	return len(b) + 1
}

// readAliases reads a document from a stranger or an old file. What of it is to be believed, [Alias.believed] says.
func readAliases(r io.Reader) ([]Alias, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAliasBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading aliases: %w", err)
	}
	if len(data) > maxAliasBytes {
		return nil, errManyAliases
	}
	var doc aliasDocument
	if json.Unmarshal(data, &doc) != nil {
		return nil, errors.New("reading aliases: they are no JSON of the kind expected") // the bytes are a stranger's
	}
	if len(doc.Aliases) > maxAliases {
		return nil, errManyAliases
	}
	return doc.Aliases, nil
}

// Load reads what an earlier run kept. A file that cannot be read is put aside and the node goes on without: the others
// have the same aliases. Call it once, before anything else and while no other process has the folder.
func (a *Aliases) Load() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.path == "" {
		a.first = true
		return
	}
	list, err := loadAliases(a.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.first = true
		return
	case err != nil:
		a.aside.Store(true)
		err = errors.Join(err, os.Rename(a.path, a.path+".broken"))
		a.cfg.Log.Warn("the aliases kept here cannot be read; the file is put aside, and they come from the other nodes", "file", a.path+".broken", "error", err)
	}
	for _, e := range list {
		if e, ok := e.believed(a.cfg.Now()); ok {
			join(a.entries, e)
		}
	}
	a.show()
}

func loadAliases(path string) ([]Alias, error) {
	f, err := openKept(path)
	if err != nil {
		return nil, fmt.Errorf("reading aliases: %w", err)
	}
	defer f.Close()
	return readAliases(f)
}

// store writes the file anew: a power cut leaves the old one or the new one.
func (a *Aliases) store(table map[string]Alias) error {
	if a.path == "" {
		return nil
	}
	if err := replaceFile(a.path, encodeAliases(table)); err != nil {
		return fmt.Errorf("storing the aliases: %w", err)
	}
	return nil
}

func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = io.Copy(f, bytes.NewReader(content))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Warnings names what is wrong with what this node keeps.
func (a *Aliases) Warnings() []status.Warning {
	if !a.aside.Load() {
		return nil
	}
	return []status.Warning{{
		ID: "alias_file", Text: "the aliases kept on this machine could not be read; they come from the other nodes",
		Fix: "look at " + a.path + ".broken: with no other node running, set its aliases anew, and delete it",
	}}
}
