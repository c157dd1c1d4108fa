package modelcopy

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"viiwork/appliance/mesh"
)

const (
	// keepFree is what a copy leaves free of the disk.
	keepFree = 1 << 30
	// maxPulls is how many models come to this node at one time.
	maxPulls = 4
)

// LeastRate is the slowest a copy can be told to be: under it the member would take this node for gone between two pieces.
const LeastRate = 1 << 20

// Refused is a copy that is not made, and why: nothing has been changed.
type Refused struct{ text string }

func (r *Refused) Error() string { return r.text }

func refuse(format string, args ...any) error { return &Refused{fmt.Sprintf(format, args...)} }

// CopierConfig is what a Copier is made of.
type CopierConfig struct {
	// Digest makes the digest by which the mesh knows a model in these files.
	Digest func(ctx context.Context, files []string) (string, error)
	// Free tells how many bytes may be written to a folder.
	Free func(dir string) (int64, error)
	// Busy tells whether requests run, which copies make room for; nil = they never do.
	Busy func() bool
	// Tailnet says that the way to members is a userspace network stack.
	Tailnet bool
}

// Copier brings models from members.
type Copier struct {
	cfg CopierConfig

	mu    sync.Mutex // guards what follows
	pulls int
	files map[string]int64 // those on their way, by path, with the bytes that have yet to come
}

// NewCopier makes a Copier.
func NewCopier(c CopierConfig) *Copier { return &Copier{cfg: c, files: map[string]int64{}} }

// Request is what is to be copied.
type Request struct {
	Client *mesh.Client
	From   mesh.Member
	Model  string // or the path of a file below that member's models_dir
	Dir    string // absolute; where it goes
	As     string // name of the file; "" = the one it has there
	Rate   int64  // bytes a second at most; 0 = any number
}

// Copied is a model that is here now.
type Copied struct {
	Model  string
	Digest string
	Files  []CopiedFile // shards in their order, then the projector
}

// CopiedFile is one of its files.
type CopiedFile struct {
	Path   string
	Size   int64
	SHA256 string
	MMProj bool
	Had    bool // it was here before
}

// Pull copies a model, telling on the way; it returns once all of it is here and checked. Errors are *Refused, what the member
// says or does, and the disk's. tell is called once at a time. What has come before an error, or the end of ctx, is kept for the next time.
func (c *Copier) Pull(ctx context.Context, r Request, tell func(Progress)) (Copied, error) {
	told := &telling{tell: tell}
	src := source{client: r.Client, from: r.From, model: r.Model, most: c.piece(), waiting: told.waits}
	if r.Rate > 0 && r.Rate < LeastRate {
		return Copied{}, refuse("a copy takes %s a second at least: give a higher --rate", Bytes(LeastRate))
	}
	if r.As != "" {
		if err := CheckName(r.As); err != nil {
			return Copied{}, &Refused{err.Error()}
		}
	}
	l, err := src.list(ctx)
	if err != nil {
		return Copied{}, fmt.Errorf("asking %s for the model's files: %w", r.From.Name, err)
	}
	l = l.rename(r.As)
	for _, f := range l.Files {
		if err := CheckName(f.Name); err != nil { // with the owner's word in it, it may be too long
			return Copied{}, &Refused{err.Error()}
		}
		told.at.Size += f.Size
	}
	p := &pull{copier: c, want: r, list: l, source: src, told: told}
	leave, err := c.enter(r, l)
	if err != nil {
		return Copied{}, err
	}
	defer leave()
	defer p.close()
	if err := p.open(ctx); err != nil {
		return Copied{}, err
	}
	return p.run(ctx)
}

// enter makes a file be written by one copy at a time.
func (c *Copier) enter(r Request, l listed) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulls >= maxPulls {
		return nil, refuse("%d models are being copied to this node: wait until one of them is here", c.pulls)
	}
	for _, f := range l.Files {
		path := filepath.Join(r.Dir, f.Name)
		if _, there := c.files[path]; there {
			return nil, refuse("%s is being copied already: wait for it, or give another name with --as", path)
		}
	}
	c.pulls++
	for _, f := range l.Files {
		c.files[filepath.Join(r.Dir, f.Name)] = 0
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pulls--
		for _, f := range l.Files {
			delete(c.files, filepath.Join(r.Dir, f.Name))
		}
	}, nil
}

// reserve notes what a copy has yet to write to a folder, and tells what all others have to write there.
func (c *Copier) reserve(dir string, files []file, missing int64) (others int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, n := range c.files {
		if filepath.Dir(path) == dir {
			others += n
		}
	}
	c.files[filepath.Join(dir, files[0].Name)] = missing
	return others
}

// wrote takes off what a copy has written of that.
func (c *Copier) wrote(dir string, files []file, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[filepath.Join(dir, files[0].Name)] -= int64(n)
}

// piece is how many bytes to ask for at one time.
func (c *Copier) piece() int64 {
	if c.cfg.Tailnet {
		return tailnetPiece
	}
	return maxPiece
}
