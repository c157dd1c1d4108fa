package update

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const versionAnnotation = "org.opencontainers.image.version"

// Verifier judges releases of one publisher.
type Verifier struct {
	publisher Publisher
	trust     *Trust
}

// NewVerifier takes whose releases are believed and whose keys say so.
func NewVerifier(p Publisher, t *Trust) *Verifier { return &Verifier{p, t} }

// Release finds a version in a source and tries each proof there until one holds. What names it: a version, or the
// digest of an index, which then says itself which version it claims to be. The report tells what was checked, with an
// error as well.
func (v *Verifier) Release(ctx context.Context, s *Source, what string) (*Verified, Report, error) {
	r := Report{What: s.String() + " " + what, Publisher: v.publisher.String(), Checks: []Check{}}
	found, err := Look(ctx, s, what)
	if err != nil {
		return nil, r, err
	}
	r.Digest, r.Version = found.Digest(), found.Version()
	bundles, err := s.at.proofs(ctx, found.digest)
	if err != nil {
		return nil, r, fmt.Errorf("looking for the proof of %s: %w", found.version, err)
	}
	p, err := v.try(bundles, found.digest, &r)
	if err != nil {
		return nil, r, fmt.Errorf("verifying %s from %s: %w", found.version, s, err)
	}
	return &Verified{*found, *p}, r, nil
}

// File verifies a plain download: a program or an archive. The proof is the bundle, or FILE.sigstore.json, or any
// *.sigstore.json beside it.
func (v *Verifier) File(path, bundle, version string) (Report, error) {
	r := Report{What: path, Publisher: v.publisher.String(), Version: version, Checks: []Check{}}
	if err := CheckVersion(version); err != nil {
		return r, err
	}
	f, err := os.Open(path)
	if err != nil {
		return r, fmt.Errorf("reading what to verify: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(f, maxUnpacked+1))
	if err == nil && n > maxUnpacked {
		err = fmt.Errorf("it has more than %d bytes, and no release does", maxUnpacked)
	}
	if err != nil {
		return r, fmt.Errorf("reading what to verify: %w", err)
	}
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	r.Digest = digest.String()
	bundles, err := besides(path, bundle)
	if err != nil {
		return r, err
	}
	_, err = v.try(bundles, digest, &r)
	if err != nil {
		err = fmt.Errorf("verifying %s: %w", path, err)
	}
	return r, err
}

// besides reads the proofs that lie with a file.
func besides(path, bundle string) ([][]byte, error) {
	if bundle != "" {
		text, err := readBounded(bundle, maxBundle)
		if err != nil {
			return nil, fmt.Errorf("reading the proof: %w", err)
		}
		return [][]byte{text}, nil
	}
	if text, err := readBounded(path+bundleSuffix, maxBundle); err == nil {
		return [][]byte{text}, nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("looking for the proof: %w", err)
	}
	defer root.Close()
	return (&folder{root}).proofs(context.Background(), v1.Hash{})
}

// try goes through the candidates: anybody who may push can lay a bad one beside the good one, in front of it as well.
// The report keeps the checks of the one that held, else of the one that came furthest.
func (v *Verifier) try(bundles [][]byte, digest v1.Hash, r *Report) (*proof, error) {
	material, from := v.trust.current()
	r.TrustRoot, r.Bundles = from, len(bundles)
	if len(bundles) == 0 {
		r.Checks = []Check{{ID: "bundle", State: Fail, Text: "there is a proof", Cause: "none was found", Fix: "ask the publisher for its *.sigstore.json and give it with --bundle"}}
		return nil, errors.New("no proof was found: ask the publisher for its *.sigstore.json")
	}
	c := claim{publisher: v.publisher, version: r.Version}
	raw, err := hex.DecodeString(digest.Hex)
	if err != nil || len(raw) != len(c.digest) {
		return nil, fmt.Errorf("%s is no SHA-256", quoted(digest.String()))
	}
	copy(c.digest[:], raw)
	var best error
	for _, b := range bundles {
		p, checks, err := examine(b, c, material, from)
		if err == nil {
			p.bundle, r.Checks = b, checks
			r.stamp(p)
			return p, nil
		}
		if best == nil || passed(checks) > passed(r.Checks) {
			best, r.Checks = err, checks
		}
	}
	return nil, best
}
