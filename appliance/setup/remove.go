package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

var backupName = regexp.MustCompile(`^\.bak-[0-9]{8}-[0-9]{6}(-[0-9]+)?$`)

// file is the removal of one file, and of the folders above it that are empty without it and that only viiwork makes.
func (u Uninstall) file(path string) Removal {
	return Removal{path, func(context.Context) error {
		if err := os.Remove(u.Machine.at(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing it: %w", err)
		}
		for dir := filepath.Dir(path); onlyOurs(dir); dir = filepath.Dir(dir) {
			if os.Remove(u.Machine.at(dir)) != nil { // something else is in it
				break
			}
		}
		return nil
	}}
}

// onlyOurs reports whether a folder is one that Files has made.
func onlyOurs(dir string) bool {
	base, above := filepath.Base(dir), filepath.Base(filepath.Dir(dir))
	return base == "viiwork" || base == "versions" && above == "viiwork" || above == "versions"
}

// state finds the state directory, and the folder in memory that slots were written to.
func (u Uninstall) state(l *Leave) {
	dir := u.Config.Node.StateDir
	if !u.there(dir) {
		return
	}
	if spool := u.spool(); spool != "" {
		l.Goes = append(l.Goes, Removal{spool + ", slot files", func(context.Context) error { return os.RemoveAll(spool) }})
	}
	if why := u.keepState(); why != "" {
		l.Stays = append(l.Stays, dir+": "+why)
		return
	}
	l.Goes = append(l.Goes, Removal{dir + ", keys, aliases and caches", func(context.Context) error {
		return emptied(u.Machine.at(dir))
	}})
}

// emptied removes a folder and all that is in it. One whose place is not this user's stays, empty: a mount, as in a node's
// container, or a folder that root made for the node.
func emptied(dir string) error {
	err := os.RemoveAll(dir)
	if entries, unread := os.ReadDir(dir); unread == nil && len(entries) == 0 {
		return nil
	}
	return err
}

// keepState is a reason not to remove the state directory: a slip in node.state_dir must not cost an owner a home or the
// models.
func (u Uninstall) keepState() string {
	dir := filepath.Clean(u.Config.Node.StateDir)
	if strings.Count(dir, string(filepath.Separator)) < 2 {
		return "a folder so near the root is not removed, do it by hand"
	}
	info, err := os.Lstat(u.Machine.at(dir))
	switch {
	case err != nil || !info.IsDir() && info.Mode()&fs.ModeSymlink == 0:
		return "no folder"
	case !info.IsDir():
		return "a link: remove it and what it leads to by hand"
	}
	if why := u.mounted(dir); why != "" {
		return why
	}
	held := []string{u.Config.ModelsDir, u.Machine.Home, u.ConfigPath}
	for _, m := range u.Config.Models {
		held = append(held, m.Path)
	}
	for _, path := range held {
		if path == "" {
			continue
		}
		if u.holds(info, path) {
			return path + " is in it, remove the rest by hand"
		}
	}
	lock, err := os.Lstat(filepath.Join(u.Machine.at(dir), "lock"))
	entries, readErr := os.ReadDir(u.Machine.at(dir))
	if (err != nil || !lock.Mode().IsRegular()) && (readErr != nil || len(entries) > 0) {
		return "no node ever ran on it"
	}
	if strings.Contains(filepath.Base(dir), "viiwork") { // made for nothing else
		return ""
	}
	for _, e := range entries {
		if !ofNode(e.Name()) {
			return filepath.Join(dir, e.Name()) + " was not put there by a node, remove the rest by hand"
		}
	}
	return ""
}

// mounted is a reason not to remove a folder into which something else is mounted: the files there are another folder's, or
// another machine's.
func (u Uninstall) mounted(dir string) string {
	at, err := filepath.EvalSymlinks(u.Machine.at(dir))
	if err != nil {
		return fmt.Sprintf("it cannot be looked at: %v", err)
	}
	switch below, err := mountsBelow(at); {
	case err != nil:
		return fmt.Sprintf("whether something is mounted in it is unknown: %v", err)
	case len(below) > 0:
		return filepath.Join(dir, strings.TrimPrefix(below[0], at)) + " is mounted in it, and is not emptied: unmount it and run this again"
	}
	return ""
}

// ofNodes is what lies in the state directory of a node and what engines leave in their home, which is the same.
var ofNodes = []string{
	"aliases.json", "before-update", "calibration.json", "engines", "handover.json", "history", "image-layers", "image-papers", "images.json",
	"kv", "lock", "meshlock.json", "missing", "rates.json", "releases", "secret", "serf", "session-key", "slots", "spool", "swap", "trust",
	"tsnode", "update.json", "viiwork.sock", ".cache", ".config", ".new-before-update", ".nv",
}

// halfWritten is a file that gets its name once it is whole: a node that runs may be at one, and one that was killed leaves it.
var halfWritten = regexp.MustCompile(`^\.([a-z.-]+)-[0-9]+$`)

func ofNode(name string) bool {
	if m := halfWritten.FindStringSubmatch(name); m != nil {
		return m[1] == "viiwork-doctor" || slices.Contains(ofNodes, m[1]) || slices.Contains(ofNodes, m[1]+".json")
	}
	return slices.Contains(ofNodes, name)
}

// holds reports whether path lies in a folder. Folders are compared as such, since one folder has many names: by links,
// or on a disk that takes two spellings for one.
func (u Uninstall) holds(folder fs.FileInfo, path string) bool {
	real, err := filepath.EvalSymlinks(u.Machine.at(path))
	if err != nil {
		real = u.Machine.at(path)
	}
	for _, at := range []string{u.Machine.at(path), real} {
		for ; at != filepath.Dir(at); at = filepath.Dir(at) {
			if info, err := os.Lstat(at); err == nil && os.SameFile(folder, info) {
				return true
			}
		}
	}
	return false
}

// spool is the folder outside of the state directory that slots were written to, "" where there is none of ours. The node
// writes down which it uses, after a word that tells one start of the machine from another.
func (u Uninstall) spool() string {
	text, err := Read(filepath.Join(u.Machine.at(u.Config.Node.StateDir), "spool"))
	if err != nil {
		return ""
	}
	_, dir, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || !strings.HasPrefix(filepath.Base(dir), "viiwork-") {
		return ""
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return ""
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	home, err := os.Lstat(u.Machine.at(u.Config.Node.StateDir))
	if err != nil || !ok {
		return ""
	}
	if state, ok := home.Sys().(*syscall.Stat_t); !ok || state.Uid != owner.Uid {
		return ""
	}
	return dir
}
