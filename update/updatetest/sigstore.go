// Package updatetest is a Sigstore of its own for tests: a certificate authority, its log, a signature log in the manner
// of Rekor 2 and a timestamp authority, all in memory, asked by the real signing library; and a registry that behaves, or
// misbehaves on demand. What it signs differs from the public services' in nothing but the keys.
//
// Each can be told to leave out or falsify what a real one never would. Nothing here may be linked into the product.
package updatetest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"
)

// Sigstore is one set of services with keys of their own.
type Sigstore struct {
	Until time.Time // when the certificate authority's time was over; zero = it goes on

	t    testing.TB
	ca   *authority
	ct   *ecdsa.PrivateKey
	log  *log
	tsa  *timestamper
	from time.Time
}

// New makes one that has been there for ten years before now.
func New(t testing.TB) *Sigstore {
	t.Helper()
	from := time.Now().AddDate(-10, 0, 0)
	s := &Sigstore{t: t, from: from, ca: newAuthority(t, from), ct: newKey(t), log: newLog(t), tsa: newTimestamper(t, from)}
	for _, leaf := range []string{"another entry", "and another", "a third"} { // so that a proof has something to prove
		s.log.append([]byte(leaf))
	}
	return s
}

// Root is its trusted_root.json.
func (s *Sigstore) Root() []byte {
	s.t.Helper()
	ca := &root.FulcioCertificateAuthority{
		Root: s.ca.root, Intermediates: []*x509.Certificate{s.ca.intermediate}, ValidityPeriodStart: s.from, ValidityPeriodEnd: s.Until, URI: "https://fulcio.example",
	}
	tsa := &root.SigstoreTimestampingAuthority{
		Root: s.tsa.root, Leaf: s.tsa.leaf, ValidityPeriodStart: s.from, URI: "https://tsa.example",
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{ca},
		s.logs(s.ct, "https://ct.example"), []root.TimestampingAuthority{tsa}, s.logs(s.log.key, "https://"+origin))
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := trusted.MarshalJSON()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

func (s *Sigstore) logs(key *ecdsa.PrivateKey, url string) map[string]*root.TransparencyLog {
	id := keyID(s.t, key)
	return map[string]*root.TransparencyLog{hex.EncodeToString(id): {
		BaseURL: url, ID: id, ValidityPeriodStart: s.from, HashFunc: crypto.SHA256, PublicKey: key.Public(), SignatureHashFunc: crypto.SHA256,
	}}
}

// Signing is what is signed, by whom and when. The zero values are what is right.
type Signing struct {
	Identity  Identity
	Statement []byte    // an in-toto statement
	Plain     []byte    // in place of it: a plain signature over this
	At        time.Time // when the certificate was made; zero = now. It holds for ten minutes
	Stamped   time.Time // what the timestamp authority says; zero = At

	NoLog, NoTime, NoSCT bool
}

// Sign makes a bundle, as JSON.
func (s *Sigstore) Sign(what Signing) []byte {
	s.t.Helper()
	if what.At.IsZero() {
		what.At = time.Now()
	}
	if what.Stamped.IsZero() {
		what.Stamped = what.At.Add(time.Second)
	}
	keys, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var content sign.Content = &sign.DSSEData{Data: what.Statement, PayloadType: "application/vnd.in-toto+json"}
	if what.Plain != nil {
		content = &sign.PlainData{Data: what.Plain}
	}
	options := sign.BundleOptions{CertificateProvider: &issuing{s, what}, Context: context.Background()}
	if !what.NoTime {
		options.TimestampAuthorities = []*sign.TimestampAuthority{sign.NewTimestampAuthority(
			&sign.TimestampAuthorityOptions{URL: "https://tsa.example/api/v1/timestamp", Transport: stamping{s.tsa, what.Stamped}})}
	}
	if !what.NoLog {
		options.TransparencyLogs = []sign.Transparency{sign.NewRekor(&sign.RekorOptions{ClientV2: s.log, Version: 2})}
	}
	made, err := sign.Bundle(content, keys, options)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := protojson.Marshal(made)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// Edit changes a bundle's JSON, as an attacker would.
func Edit(t testing.TB, bundle []byte, change func(map[string]any)) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(bundle, &doc); err != nil {
		t.Fatal(err)
	}
	change(doc)
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyID(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	id := sha256.Sum256(der)
	return id[:]
}
