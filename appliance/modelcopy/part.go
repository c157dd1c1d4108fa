package modelcopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	partEnd   = ".part"
	recordEnd = ".part.json"
	// syncEach is how many bytes are written between two syncs: what a power cut takes, and what the disk has to do at once.
	syncEach = 256 << 20
	// maxRecord is more than a record has.
	maxRecord = 1 << 10
)

// record stands beside a part and says what it is to become.
type record struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// part is a file on its way. Its lock keeps other nodes of this machine from writing it.
type part struct {
	path string // of the file it becomes
	want file
	file *os.File
	at   int64     // bytes that are there
	sum  hash.Hash // of them
	safe int64     // bytes that are on the disk
}

// openPart begins a file or goes on with one. What lies there of another file is begun anew if a copy left it; what no copy left is
// the owner's.
func openPart(path string, want file) (*part, error) {
	f, err := os.OpenFile(path+partEnd, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENXIO):
		return nil, noPart(path)
	case err != nil:
		return nil, written(err)
	}
	p := &part{path: path, want: want, file: f, sum: sha256.New()}
	if err := p.claim(); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// claim locks the part and sees to it that it is one of the wanted file.
func (p *part) claim() error {
	if err := unix.Flock(int(p.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return refuse("%s is being copied by another node of this machine", p.path)
	}
	info, err := p.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at the part: %w", err)
	}
	if !info.Mode().IsRegular() {
		return noPart(p.path)
	}
	r, known := readRecord(p.path + recordEnd)
	mine := record{p.want.Digest, p.want.Size}
	switch {
	case known && r == mine && info.Size() <= p.want.Size:
		return nil
	case !known && info.Size() > 0:
		return noPart(p.path)
	}
	if err := p.file.Truncate(0); err != nil { // before the record, which would give the old bytes another meaning
		return written(err)
	}
	return writeRecord(p.path+recordEnd, mine)
}

// newReading is a file that is whole already, for its sum.
func newReading(path string, want file, f *os.File) *part {
	return &part{path: path, want: want, file: f, sum: sha256.New()}
}

// recall reads what is there for its sum.
func (p *part) recall(ctx context.Context, tell func(n int64)) error {
	buf := make([]byte, 1<<20)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := p.file.ReadAt(buf, p.at)
		p.sum.Write(buf[:n])
		p.at += int64(n)
		tell(p.at)
		if err == io.EOF {
			p.safe = p.at
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the part: %w", err)
		}
	}
}

func (p *part) add(b []byte) error {
	if _, err := p.file.WriteAt(b, p.at); err != nil {
		return written(err)
	}
	p.sum.Write(b)
	p.at += int64(len(b))
	if p.at-p.safe >= syncEach {
		return p.sync()
	}
	return nil
}

func (p *part) sync() error {
	if err := p.file.Sync(); err != nil {
		return written(err)
	}
	p.safe = p.at
	return nil
}

// finish gives the file its name, unless there is another one by now.
func (p *part) finish() error {
	if err := p.file.Chmod(0o644); err != nil { // the process's umask keeps others out of what it writes
		return written(err)
	}
	if err := p.sync(); err != nil {
		return err
	}
	switch err := os.Link(p.path+partEnd, p.path); {
	case errors.Is(err, fs.ErrExist):
		return refuse("%s has come into being meanwhile: move it away, or give another name with --as", p.path)
	case err == nil:
		err = os.Remove(p.path + partEnd)
		if err != nil {
			return written(err)
		}
	default: // a file system without links
		if _, err := os.Lstat(p.path); !errors.Is(err, fs.ErrNotExist) {
			return refuse("%s has come into being meanwhile: move it away, or give another name with --as", p.path)
		}
		if err := os.Rename(p.path+partEnd, p.path); err != nil {
			return written(err)
		}
	}
	_ = os.Remove(p.path + recordEnd)
	return syncDir(filepath.Dir(p.path))
}

// drop takes away what cannot be gone on with.
func (p *part) drop() {
	_ = os.Remove(p.path + partEnd)
	_ = os.Remove(p.path + recordEnd)
}

// close leaves what is there for the next time.
func (p *part) close() {
	_ = p.file.Sync()
	_ = unix.Flock(int(p.file.Fd()), unix.LOCK_UN) // a process that is just being started has the open file, too: closing it alone would not end the lock at once
	_ = p.file.Close()
}

func (p *part) sha256() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// noPart: what has the part's name is a link, a pipe or a folder, into which nothing is written.
func noPart(path string) error {
	return refuse("%s%s is there and no copy left it: move it away", path, partEnd)
}

// readRecord takes what a copy wrote, and nothing else that has its name.
func readRecord(path string) (r record, known bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return record{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return record{}, false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	return r, err == nil && json.Unmarshal(text, &r) == nil
}

func writeRecord(path string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".viiwork-*")
	if err != nil {
		return written(err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return written(err)
	}
	return nil
}

// written says what to do where the disk is the matter.
func written(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("writing the file: %w: make room, and run the same command again; it goes on from there", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("writing the file: %w: let the node's user write there, or name another folder with --to", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("writing the file: %w: the service or the container has it read-only: let it write there (docs/models.md), or name another folder with --to", err)
	}
	return fmt.Errorf("writing the file: %w", err)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return written(err)
	}
	defer d.Close()
	_ = d.Sync() // some file systems have none for folders
	return nil
}
