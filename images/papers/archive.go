package papers

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Opener begins to read a part. What it gives beyond the part's size is never read.
type Opener func(Part) (io.ReadCloser, error)

// Archive writes the image to w in the form that 'docker load' reads, under a name, of parts that [Image.Match] has passed. Each is
// held against its digest on the way, and the list of what is in the archive comes last: one that breaks off holds no
// image. What was written before an error is worth nothing.
func (i *Image) Archive(name string, parts []Part, open Opener, w io.Writer) error {
	if err := i.Match(parts); err != nil {
		return err
	}
	to := tar.NewWriter(w)
	configName := hexOf(i.Config) + ".json"
	if err := enclose(to, configName, i.config); err != nil {
		return err
	}
	for _, p := range once(parts) {
		if err := copyPart(to, p, open); err != nil {
			return err
		}
	}
	var names []string
	for _, p := range parts {
		names = append(names, partName(p))
	}
	list, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{name}, "Layers": names}})
	if err != nil {
		return err
	}
	return errors.Join(enclose(to, "manifest.json", list), to.Close())
}

func partName(p Part) string { return hexOf(p.Digest) + ".tar" }

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// copyPart passes a part on, and tells an archive's fault from the part's.
func copyPart(to *tar.Writer, p Part, open Opener) error {
	from, err := open(p)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := to.WriteHeader(&tar.Header{Name: partName(p), Mode: 0o600, Size: p.Size}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(to, io.TeeReader(io.LimitReader(from, p.Size), sum))
	switch {
	case err != nil:
		return fmt.Errorf("reading layer %s: %w", p.Digest, err)
	case n != p.Size:
		return fmt.Errorf("layer %s ended after %d of %d bytes", p.Digest, n, p.Size)
	case hex.EncodeToString(sum.Sum(nil)) != hexOf(p.Digest):
		return fmt.Errorf("layer %s came with other bytes", p.Digest)
	}
	return nil
}

func enclose(to *tar.Writer, name string, text []byte) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := to.Write(text)
	return err
}
