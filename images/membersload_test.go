package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// loaded is what a daemon made of an archive.
type loaded struct {
	id      string
	content []string
	config  json.RawMessage
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// LoadImage does as Docker does: it reads all, looks for the list of what is in it, and takes no layer that is not its
// configuration's.
func (d *daemon) LoadImage(_ context.Context, archive io.Reader) error {
	if d.full {
		_, _ = io.CopyN(io.Discard, archive, 1<<10)
		return errors.New("no space left on device")
	}
	files := map[string][]byte{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return err
		}
	}
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	if json.Unmarshal(files["manifest.json"], &list) != nil || len(list) != 1 {
		return errors.New("no manifest.json")
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
		Config json.RawMessage `json:"config"`
	}
	text := files[list[0].Config]
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	var content []string
	for _, name := range list[0].Layers {
		layer := files[name]
		if r, err := gzip.NewReader(bytes.NewReader(layer)); err == nil {
			if layer, err = io.ReadAll(r); err != nil {
				return err
			}
		}
		content = append(content, sum(layer))
	}
	if !slices.Equal(content, config.RootFS.DiffIDs) {
		return errors.New("invalid diffID")
	}
	l := loaded{sum(text), content, config.Config}
	if d.stored {
		l.id = sum(append([]byte("manifest of "), text...))
	}
	if d.spoil != nil {
		d.spoil(&l)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loads == nil {
		d.loads = map[string]loaded{}
	}
	d.loads[l.id] = l
	d.name(list[0].RepoTags[0], l.id)
	return nil
}

func (d *daemon) ImageContent(ctx context.Context, ref string) (string, []string, error) {
	id, err := d.ImageID(ctx, ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	return id, d.loads[id].content, err
}

func (d *daemon) ImageConfig(ctx context.Context, ref string) ([]byte, error) {
	id, err := d.ImageID(ctx, ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.loads[id].config, err
}

func (d *daemon) ForgetImage(_ context.Context, ref string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.ids[ref]; !ok {
		return fmt.Errorf("%s: %w", ref, fs.ErrNotExist)
	}
	delete(d.ids, ref)
	return nil
}

// arrivals lists names of what was loaded and not yet looked at.
func (d *daemon) arrivals() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.ids {
		if strings.HasPrefix(name, "viiwork-arrived") {
			names = append(names, name)
		}
	}
	return names
}
