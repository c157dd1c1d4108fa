package modelcopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"viiwork/appliance/mesh"
)

// pull is one copy.
type pull struct {
	want   Request
	list   listed
	source source
	copier *Copier
	told   *telling
	due    time.Time // when what came so far was to have come, by the owner's rate
	parts  []*part   // by file; nil = it is here already
}

func (p *pull) path(n int) string { return filepath.Join(p.want.Dir, p.list.Files[n].Name) }

// open looks at what is here already, and whether the rest has room. It refuses before anything is written.
func (p *pull) open(ctx context.Context) error {
	if info, err := os.Stat(p.want.Dir); err != nil || !info.IsDir() {
		return refuse("%s is no folder that this node can enter: make it, or name another one with --to", p.want.Dir)
	}
	p.parts = make([]*part, len(p.list.Files))
	missing := int64(0)
	var lacks []int
	for n, f := range p.list.Files {
		_, err := os.Lstat(p.path(n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing += f.Size - partSize(p.path(n), f)
			lacks = append(lacks, n)
		case err != nil:
			return refuse("%s cannot be looked at: %v", p.path(n), err)
		case !p.isThere(ctx, n):
			return refuse("%s is another file, and stays as it is: give another name with --as", p.path(n))
		}
	}
	free, err := p.copier.cfg.Free(p.want.Dir)
	if err != nil {
		return fmt.Errorf("looking for room: %w", err)
	}
	if free -= p.copier.reserve(p.want.Dir, p.list.Files, missing); missing > 0 && free-keepFree < missing {
		return refuse("%s has %s free for %s that have yet to come, and %s are to stay free: make room, or name another folder with --to",
			p.want.Dir, Bytes(max(free, 0)), Bytes(missing), Bytes(keepFree))
	}
	for _, n := range lacks {
		if p.parts[n], err = openPart(p.path(n), p.list.Files[n]); err != nil {
			return err
		}
	}
	return nil
}

// isThere tells whether a file is likely the one that is wanted; its SHA-256 tells for sure, later.
func (p *pull) isThere(ctx context.Context, n int) bool {
	f := p.list.Files[n]
	if real, err := os.Stat(p.path(n)); err != nil || !real.Mode().IsRegular() || real.Size() != f.Size {
		return false
	}
	sum, err := p.copier.cfg.Digest(ctx, []string{p.path(n)})
	return err == nil && sum == f.Digest
}

// partSize is what a copy that was cut off has left of a file.
func partSize(path string, want file) int64 {
	info, err := os.Lstat(path + partEnd)
	if err != nil || info.Size() > want.Size {
		return 0
	}
	return info.Size()
}

func (p *pull) close() {
	for _, part := range p.parts {
		if part != nil {
			part.close()
		}
	}
}

// run brings each file, and gives all of them their names when the last is known to be right.
func (p *pull) run(ctx context.Context) (Copied, error) {
	out := Copied{Model: p.list.Model, Digest: p.list.Digest}
	var paths []string
	for n, f := range p.list.Files {
		sum, err := p.bring(ctx, n)
		if err != nil {
			return Copied{}, err
		}
		out.Files = append(out.Files, CopiedFile{Path: p.path(n), Size: f.Size, SHA256: sum, MMProj: f.MMProj, Had: p.parts[n] == nil})
		path := p.path(n)
		if p.parts[n] != nil {
			path += partEnd
		}
		paths = append(paths, path)
	}
	if sum, err := p.copier.cfg.Digest(ctx, paths[:len(p.list.shards())]); err != nil {
		return Copied{}, fmt.Errorf("checking what came: %w", err)
	} else if sum != p.list.Digest {
		p.drop()
		return Copied{}, fmt.Errorf("checking what came: it is not the model that %s told of, and was thrown away: run the same command again", p.want.From.Name)
	}
	for _, part := range p.parts {
		if part == nil {
			continue
		}
		if err := part.finish(); err != nil {
			return Copied{}, err
		}
	}
	return out, nil
}

func (p *pull) drop() {
	for _, part := range p.parts {
		if part != nil {
			part.drop()
		}
	}
}

// bring makes the n-th file whole and right, and gives its SHA-256.
func (p *pull) bring(ctx context.Context, n int) (string, error) {
	f, part, before := p.list.Files[n], p.parts[n], p.told.now().Done
	if part == nil { // only read, for its sum
		file, err := os.Open(p.path(n))
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", p.path(n), err)
		}
		defer file.Close()
		part = newReading(p.path(n), f, file)
	}
	if err := part.recall(ctx, func(at int64) { p.say(f, StateChecking, before+at) }); err != nil {
		return "", p.ended(err)
	}
	if p.parts[n] != nil {
		if err := p.fill(ctx, n, before); err != nil {
			return "", err
		}
	}
	p.say(f, StateChecking, before+part.at)
	want, err := p.source.sum(ctx, n, f)
	if err != nil {
		return "", p.ended(fmt.Errorf("checking %s against what %s has: %w", f.Name, p.want.From.Name, err))
	}
	switch got := part.sha256(); {
	case got == want:
		return got, nil
	case p.parts[n] == nil:
		return "", refuse("%s is another file, and stays as it is: give another name with --as", p.path(n))
	}
	part.drop()
	return "", fmt.Errorf("checking %s: it came with other bytes than %s has, and was thrown away: run the same command again", f.Name, p.want.From.Name)
}

// fill brings what the n-th file lacks. While one piece is written the next one is on its way.
func (p *pull) fill(ctx context.Context, n int, before int64) error {
	f, part := p.list.Files[n], p.parts[n]
	ctx, cancel := context.WithCancel(ctx)
	var next *ahead
	defer func() {
		cancel()
		next.drop()
	}()
	for part.at < f.Size {
		began := time.Now()
		if next == nil {
			next = p.ask(ctx, n, part.at)
		}
		b, err := next.take()
		next = nil
		if err != nil {
			return p.ended(fmt.Errorf("copying %s from %s: %w", f.Name, p.want.From.Name, err))
		}
		if after := part.at + int64(len(b)); after < f.Size && !p.holdsBack() {
			next = p.ask(ctx, n, after)
		}
		if err := part.add(b); err != nil {
			return err
		}
		p.copier.wrote(p.want.Dir, p.list.Files, len(b))
		p.say(f, StateCopying, before+part.at)
		p.pace(ctx, len(b), began)
	}
	return nil
}

// holdsBack tells whether nothing is to be asked for before a pause.
func (p *pull) holdsBack() bool {
	return p.want.Rate > 0 || p.copier.cfg.Busy != nil && p.copier.cfg.Busy()
}

// ahead is a piece that was asked for.
type ahead struct {
	came chan struct{} // closed once it is here
	b    []byte
	err  error
}

func (p *pull) ask(ctx context.Context, n int, from int64) *ahead {
	a := &ahead{came: make(chan struct{})}
	go func() {
		defer close(a.came)
		a.b, a.err = p.source.piece(ctx, n, p.list.Files[n], from)
	}()
	return a
}

func (a *ahead) take() ([]byte, error) {
	<-a.came // its context ends it
	return a.b, a.err
}

// drop waits for one that nobody wants any more.
func (a *ahead) drop() {
	if a != nil {
		<-a.came
	}
}

// pace keeps to the owner's rate, and lets requests go first.
func (p *pull) pace(ctx context.Context, n int, began time.Time) {
	took := time.Since(began)
	if p.want.Rate > 0 {
		if p.due.Before(began) {
			p.due = began
		}
		p.due = p.due.Add(time.Duration(float64(n) / float64(p.want.Rate) * float64(time.Second)))
		_ = sleep(ctx, time.Until(p.due))
	}
	rest(ctx, p.copier.cfg.Busy, took)
}

// ended says how to go on with what was cut off.
func (p *pull) ended(err error) error {
	var no *mesh.No
	if errors.As(err, &no) && no.Code == errChanged.Code {
		return fmt.Errorf("%w: run the same command again", err)
	}
	at := p.told.now()
	return fmt.Errorf("%w: %s of %s are here and kept; the same command goes on from there", err, Bytes(at.Done), Bytes(at.Size))
}

func (p *pull) say(f file, state string, done int64) {
	p.told.say(func(at *Progress) { at.File, at.State, at.Done = f.Name, state, done })
}
