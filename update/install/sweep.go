package install

import (
	"os"
	"path/filepath"
	"strings"
)

// sweep removes what installations that were cut off have left. Who calls it holds the lock of updates.
func (v *Versions) sweep() {
	entries, _ := os.ReadDir(v.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) && e.IsDir() {
			os.RemoveAll(v.at(e.Name()))
		}
	}
}

// prune removes versions that no link leads to. A folder that holds anything else than the program is somebody's.
func (v *Versions) prune() {
	keep := map[string]bool{}
	for _, link := range []string{linkCurrent, linkPrevious} {
		name, err := v.follow(link)
		if err != nil {
			return // whoever does not know what runs removes nothing
		}
		keep[name] = true
	}
	entries, _ := os.ReadDir(v.dir)
	for _, e := range entries {
		if !e.IsDir() || keep[e.Name()] || !isFolderName(e.Name()) {
			continue
		}
		within, err := os.ReadDir(v.at(e.Name()))
		if err != nil || len(within) > 1 || len(within) == 1 && within[0].Name() != program {
			continue
		}
		_ = os.Remove(v.Program(e.Name()))
		_ = os.Remove(filepath.Join(v.dir, e.Name()))
	}
}
