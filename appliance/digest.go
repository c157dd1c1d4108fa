package appliance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/gguf"
)

// A digest is of samples, since reading all of a large model would take minutes at each start. docs/mesh.md describes
// it: another choice of samples needs another mark.
const (
	digestMark    = "v1:"
	digestEnd     = 1 << 20  // bytes at the beginning of a file, and as many at its end
	digestBlock   = 64 << 10 // bytes of each sample between them
	digestBlocks  = 64
	digestLook    = time.Minute // how often files are looked at for a change
	digestLargest = 2*digestEnd + digestBlocks*digestBlock
)

// digests tells the model files of this node from others of the same name. They are worked out beside the node's
// service, which never waits for them: until then a model's digest is unknown.
type digests struct {
	models func() []engine.ModelState
	news   func()
	poke   chan struct{} // holds one: the models may be others
	now    atomic.Pointer[map[string]fileFacts]
	files  map[string]hashed // by path of the first shard; run's own

	loaded map[string]string                // digest that was known first for a process; run's own
	other  atomic.Pointer[[]status.Warning] // files that are others than those engines have loaded
}

// fileFacts is what is known of a model's file.
type fileFacts struct {
	digest     string
	kvPerToken int64 // bytes
}

// hashed is that, and what its files looked like.
type hashed struct {
	shards []string
	stamp  string
	fileFacts
}

// newDigests makes digests of what models lists; news is called when one has become known or another.
func newDigests(models func() []engine.ModelState, news func()) *digests {
	d := &digests{models: models, news: news, poke: make(chan struct{}, 1), files: map[string]hashed{}, loaded: map[string]string{}}
	d.now.Store(&map[string]fileFacts{})
	d.other.Store(&[]status.Warning{})
	return d
}

// of is the digest of a model's file, "" while it is not known.
func (d *digests) of(model string) string { return (*d.now.Load())[model].digest }

// kvPerToken is how many bytes of cache a token of the model takes, 0 while that is not known.
func (d *digests) kvPerToken(model string) int64 { return (*d.now.Load())[model].kvPerToken }

// look says that the models may be others. It never waits.
func (d *digests) look() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// run keeps the digests until ctx ends.
func (d *digests) run(ctx context.Context) {
	again := time.NewTicker(digestLook)
	defer again.Stop()
	for {
		d.update(ctx)
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-d.poke:
		}
	}
}

// update works out what is missing. A file that cannot be read has no digest: what is wrong with it is the engine's to
// say.
func (d *digests) update(ctx context.Context) {
	files, known := map[string]hashed{}, map[string]fileFacts{}
	for _, m := range d.models() {
		path := m.Model.Path
		if path == "" || ctx.Err() != nil {
			continue
		}
		f, err := d.file(ctx, path)
		if err != nil {
			continue
		}
		files[path], known[m.Model.Name] = f, f.fileFacts
	}
	if ctx.Err() != nil {
		return
	}
	d.files = files
	d.compare(known)
	if !maps.Equal(known, *d.now.Load()) {
		d.now.Store(&known)
		d.news()
	}
}

// compare looks whether the engines still run on the files that are there. What a process has loaded is what was there when
// it was first seen: a file replaced under it would be served only after its next start, beside others of one name.
func (d *digests) compare(known map[string]fileFacts) {
	loaded, other := map[string]string{}, []status.Warning{}
	for _, m := range d.models() {
		name, now := m.Model.Name, known[m.Model.Name].digest
		replaced := false
		for _, b := range m.Backends {
			if b.Process == "" || now == "" {
				continue
			}
			process := b.ID + " " + b.Process
			loaded[process] = cmp.Or(d.loaded[process], now)
			replaced = replaced || loaded[process] != now
		}
		if replaced {
			other = append(other, status.Warning{ID: "model_file_replaced",
				Text: fmt.Sprintf("the file of %s was replaced while its engine runs on the former one", name),
				Fix:  "restart the node, which then loads the file that is there, or put the former one back"})
		}
	}
	d.loaded = loaded
	d.other.Store(&other)
}

// replaced are the warnings about files that are no longer those that engines have loaded.
func (d *digests) replaced() []status.Warning { return *d.other.Load() }

func (d *digests) file(ctx context.Context, path string) (hashed, error) {
	if f, ok := d.files[path]; ok {
		if stamp, err := stampOf(f.shards); err == nil && stamp == f.stamp {
			return f, nil
		}
	}
	model, err := gguf.Read(path)
	if err != nil {
		return hashed{}, err
	}
	before, err := stampOf(model.Shards)
	if err != nil {
		return hashed{}, err
	}
	digest, err := fileDigest(ctx, model.Shards)
	if err != nil {
		return hashed{}, err
	}
	if after, err := stampOf(model.Shards); err != nil || after != before {
		return hashed{}, fmt.Errorf("reading %s: it is being changed", path)
	}
	return hashed{slices.Clone(model.Shards), before, fileFacts{digest, model.KVPerToken}}, nil
}

// stampOf changes when one of the files is written or replaced.
func stampOf(paths []string) (string, error) {
	var stamp []byte
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		stamp = fmt.Appendf(stamp, "%d %d", info.Size(), info.ModTime().UnixNano())
		if st, ok := info.Sys().(*syscall.Stat_t); ok { // a copy may keep both
			stamp = fmt.Appendf(stamp, " %d %d", st.Dev, st.Ino)
		}
		stamp = append(stamp, ';')
	}
	return string(stamp), nil
}

// fileDigest is the digest of a model in these shards.
func fileDigest(ctx context.Context, shards []string) (string, error) {
	sum := sha256.New()
	for _, path := range shards {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := sample(sum, path); err != nil {
			return "", fmt.Errorf("reading %s for its digest: %w", path, err)
		}
	}
	return digestMark + hex.EncodeToString(sum.Sum(nil)), nil
}

// sample adds a file's size and samples to sum, or all of a small file.
func sample(sum hash.Hash, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(size))) // never fails
	add := func(from, n int64) {
		if err == nil {
			_, err = io.CopyN(sum, io.NewSectionReader(f, from, n), n)
		}
	}
	if size <= digestLargest {
		add(0, size)
		return err
	}
	add(0, digestEnd)
	for i := int64(1); i <= digestBlocks; i++ {
		add((size-digestBlock)/(digestBlocks+1)*i, digestBlock)
	}
	add(size-digestEnd, digestEnd)
	return err
}

// ModelDigest is the digest by which nodes know the model file at path, all its shards counted.
func ModelDigest(ctx context.Context, path string) (string, error) {
	file, err := gguf.Read(path)
	if err != nil {
		return "", err
	}
	return fileDigest(ctx, file.Shards)
}
