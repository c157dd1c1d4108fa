package update

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

const maxBundle = 1 << 20 // bytes; a bundle of ours has about 10,000

// claim is what a bundle must prove: that this digest is this version of this publisher.
type claim struct {
	publisher Publisher
	version   string
	digest    [sha256.Size]byte
}

// proof is what a bundle that held says beyond the claim.
type proof struct {
	commit   string
	signed   time.Time
	subjects map[string]string // name → SHA-256 in hex, of everything that was attested with it
	bundle   []byte            // as it came
}

// examination is one bundle held against one claim. The verdict is the library's, in one call with all that we ask for
// ([examination.judge]); the stages before it exist so that a person is told what was wrong.
type examination struct {
	claim
	material *root.TrustedRoot
	from     string // where the trust root is from
	checks   []Check

	bundle *bundle.Bundle
	stmt   *verify.VerificationResult
}

// stage is one check: its error is the cause, fix what to do about it.
type stage struct {
	id, text, fix string
	run           func(*examination) error
}

// stages lists them in the order in which they depend on each other.
func stages(c claim, material *root.TrustedRoot) []stage {
	const foreign = "do not install it; ask the publisher"
	return []stage{
		{"log", "it is written in a public log", foreign, (*examination).inLog},
		{"time", "a log or timestamp authority says when it was signed", foreign, (*examination).timed},
		{"certificate", "the certificate was good at that time, and the signature is its own", foreign,
			func(e *examination) error { return e.ask(nil) }},
		{"sct", "the certificate itself is written in a public log", foreign,
			func(e *examination) error { return e.ask(nil, verify.WithSignedCertificateTimestamps(1)) }},
		{"digest", "it speaks of sha256:" + hex.EncodeToString(c.digest[:]), "fetch it again; if that does not help, " + foreign,
			func(e *examination) error { return e.ask(e.digest[:], verify.WithSignedCertificateTimestamps(1)) }},
		{"identity", "the signer is " + c.publisher.signer(c.version) + ", by its tag's push on a runner of GitHub", foreign, (*examination).signer},
		{"verdict", "all of this at one time", foreign, (*examination).judge},
		{"provenance", "it is the provenance of a build of " + c.publisher.repositoryURL() + " at " + c.version, foreign,
			func(e *examination) error { return e.provenance() }},
	}
}

// examine holds a bundle against a claim and explains itself; without an error the proof is good.
func examine(raw []byte, c claim, material *root.TrustedRoot, from string) (*proof, []Check, error) {
	e := &examination{claim: c, material: material, from: from}
	text := "it is a Sigstore bundle, version 0.3 or newer"
	err := e.parse(raw)
	e.note(stage{id: "bundle", text: text, fix: "ask the publisher for a bundle of that format"}, err)
	for _, s := range stages(c, material) {
		if err != nil {
			e.checks = append(e.checks, Check{ID: s.id, State: Skip, Text: s.text})
			continue
		}
		err = s.run(e)
		e.note(s, err)
	}
	if err != nil {
		bad := failed(e.checks)
		return nil, e.checks, fmt.Errorf("checking the proof (%s): %w: %s", bad.ID, err, bad.Fix)
	}
	return e.proved(), e.checks, nil
}

func (e *examination) note(s stage, err error) {
	c := Check{ID: s.id, State: Pass, Text: s.text}
	if err != nil {
		c.State, c.Cause, c.Fix = Fail, printable(err.Error()), s.fix
		if stale := (staleRoot{}); errors.As(err, &stale) {
			c.Fix = stale.fix()
		}
	}
	e.checks = append(e.checks, c)
}

// parse reads the bundle. The library has its own words about old formats; ours come after.
func (e *examination) parse(raw []byte) error {
	if len(raw) > maxBundle {
		return fmt.Errorf("more than %d bytes", maxBundle)
	}
	e.bundle = new(bundle.Bundle)
	if err := e.bundle.UnmarshalJSON(raw); err != nil {
		return err
	}
	if !e.bundle.MinVersion("v0.3") {
		return errors.New("its format is older than 0.3")
	}
	content, err := e.bundle.VerificationContent()
	if err == nil && content.Certificate() == nil {
		err = errors.New("it is signed by a key, not by a certificate that names its workflow")
	}
	return err
}

func (e *examination) inLog() error {
	v, err := verify.NewVerifier(e.material, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	if err != nil {
		return err
	}
	if _, err = v.VerifyTransparencyLogInclusion(e.bundle); err == nil {
		return nil
	}
	entries, listErr := e.bundle.TlogEntries()
	if listErr != nil || len(entries) == 0 {
		return err
	}
	for _, entry := range entries {
		if _, known := e.material.RekorLogs()[hex.EncodeToString([]byte(entry.LogKeyID()))]; known {
			return err
		}
	}
	return staleRoot{err, e.from}
}

func (e *examination) timed() error {
	v, err := verify.NewVerifier(e.material, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	if err != nil {
		return err
	}
	byLog, err := v.VerifyTransparencyLogInclusion(e.bundle)
	if err == nil {
		_, err = v.VerifyObserverTimestamps(e.bundle, byLog)
	}
	return err
}

// ask is the library's verification without a look at who signed, and of whatever it is if digest is nil.
func (e *examination) ask(digest []byte, more ...verify.VerifierOption) error {
	v, err := verify.NewVerifier(e.material, append(more, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))...)
	if err != nil {
		return err
	}
	artifact := verify.WithoutArtifactUnsafe()
	if signed := e.messageDigest(); digest == nil && signed != nil {
		artifact = verify.WithArtifactDigest("sha256", signed)
	} else if digest != nil {
		artifact = verify.WithArtifactDigest("sha256", digest)
	}
	_, err = v.Verify(e.bundle, verify.NewPolicy(artifact, verify.WithoutIdentitiesUnsafe()))
	return err
}

// messageDigest is what a plain signature says it signs; nil for a statement. A plain signature is refused in the end.
func (e *examination) messageDigest() []byte {
	content, err := e.bundle.SignatureContent()
	if err != nil || content.MessageSignatureContent() == nil {
		return nil
	}
	return content.MessageSignatureContent().Digest()
}

// judge is the verdict: everything that is asked for, in the library's one call.
func (e *examination) judge() error {
	v, err := verify.NewVerifier(e.material,
		verify.WithTransparencyLog(1), verify.WithSignedCertificateTimestamps(1), verify.WithObserverTimestamps(1))
	if err != nil {
		return err
	}
	san, err := verify.NewSANMatcher(e.publisher.signer(e.version), "")
	if err != nil {
		return err
	}
	by, err := verify.NewIssuerMatcher(issuer, "")
	if err != nil {
		return err
	}
	who, err := verify.NewCertificateIdentity(san, by, e.extensions())
	if err != nil {
		return err
	}
	e.stmt, err = v.Verify(e.bundle, verify.NewPolicy(verify.WithArtifactDigest("sha256", e.digest[:]), verify.WithCertificateIdentity(who)))
	return err
}

// extensions are what the certificate must say about the run that signed. An empty field would not be compared.
func (e *examination) extensions() certificate.Extensions {
	signer, repo := e.publisher.signer(e.version), e.publisher.repositoryURL()
	return certificate.Extensions{
		BuildSignerURI:      signer,
		BuildConfigURI:      signer,
		SourceRepositoryURI: repo,
		SourceRepositoryRef: e.publisher.ref(e.version),
		RunnerEnvironment:   "github-hosted",
		BuildTrigger:        "push",
	}
}

// signer compares what the certificate says about its holder, so that a person is told which of it is wrong.
func (e *examination) signer() error {
	content, err := e.bundle.VerificationContent()
	if err != nil {
		return err
	}
	got, err := certificate.SummarizeCertificate(content.Certificate())
	if err != nil {
		return err
	}
	want := e.extensions()
	for _, c := range []struct{ what, want, got string }{
		{"signer (SAN)", e.publisher.signer(e.version), got.SubjectAlternativeName},
		{"issuer", issuer, got.Issuer},
		{"repository", want.SourceRepositoryURI, got.SourceRepositoryURI},
		{"ref", want.SourceRepositoryRef, got.SourceRepositoryRef},
		{"runner", want.RunnerEnvironment, got.RunnerEnvironment},
		{"trigger", want.BuildTrigger, got.BuildTrigger},
		{"build signer", want.BuildSignerURI, got.BuildSignerURI},
		{"build config", want.BuildConfigURI, got.BuildConfigURI},
	} {
		if c.got != c.want {
			return fmt.Errorf("the %s is %s, not %s", c.what, quoted(c.got), c.want)
		}
	}
	return nil
}

// staleRoot is a proof by a log that the trust root does not know: keys are replaced now and then, and a machine that
// slept through it knows the old ones only. Forged proofs look the same.
type staleRoot struct {
	error
	from string
}

func (s staleRoot) Error() string {
	return s.error.Error() + ": the trust root (" + s.from + ") does not know the log that signed it"
}

func (s staleRoot) fix() string {
	return "the trust root may be stale: let this machine reach the network once to refresh it, or give a newer trusted_root.json with --trust-root; if that does not help, do not install it"
}
