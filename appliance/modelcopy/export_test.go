package modelcopy

import (
	"os"
	"syscall"
)

// TagOf is what tells a file from a later one.
func TagOf(info os.FileInfo) string { return tagOf(info) }

// Pipe makes one.
func Pipe(path string) error { return syscall.Mkfifo(path, 0o600) }

// Places is whose copies go on.
type Places struct{ places }

// Take takes one.
func (p *Places) Take(key string) bool { return p.take(key) }

// Give gives it back.
func (p *Places) Give(key string) { p.give(key) }

// ReadList reads a member's list, and gives the names under which its files would be written, and their sizes.
func ReadList(text []byte, as string) (names []string, sizes []int64, err error) {
	l, err := readList(text)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range l.rename(as).Files {
		names, sizes = append(names, f.Name), append(sizes, f.Size)
	}
	return names, sizes, nil
}

// OpenPart begins a file, or goes on with one, and tells how many bytes of it are kept.
func OpenPart(path, digest string, size int64) (at int64, err error) {
	p, err := openPart(path, file{Digest: digest, Size: size})
	if err != nil {
		return 0, err
	}
	defer p.file.Close()
	info, err := p.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
