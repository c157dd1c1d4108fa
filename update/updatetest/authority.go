package updatetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
)

// Identity is what GitHub tells the certificate authority about a run of a workflow.
type Identity struct {
	Signer     string // https://github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml@refs/tags/v1.2.3
	Issuer     string
	Repository string // https://github.com/OWNER/REPOSITORY
	Ref        string
	Commit     string
	Runner     string
	Trigger    string
}

// Run is an honest run: that of the workflow release.yml of a repository ("owner/name") at a version's tag.
func Run(repository, version, commit string) Identity {
	url, ref := "https://github.com/"+repository, "refs/tags/"+version
	return Identity{
		Signer: url + "/.github/workflows/release.yml@" + ref, Issuer: "https://token.actions.githubusercontent.com",
		Repository: url, Ref: ref, Commit: commit, Runner: "github-hosted", Trigger: "push",
	}
}

// authority is the certificate authority.
type authority struct {
	root, intermediate *x509.Certificate
	key                *ecdsa.PrivateKey // the intermediate's
}

func newAuthority(t testing.TB, from time.Time) *authority {
	rootKey, key := newKey(t), newKey(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root", Organization: []string{"example"}}, NotBefore: from, NotAfter: from.AddDate(40, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root = issue(t, root, root, rootKey, rootKey)
	intermediate := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "intermediate", Organization: []string{"example"}}, NotBefore: from, NotAfter: from.AddDate(40, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	return &authority{root, issue(t, intermediate, root, key, rootKey), key}
}

// issue signs a certificate for holder's key by the parent's.
func issue(t testing.TB, template, parent *x509.Certificate, holder, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, holder.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// issuing is the authority asked on behalf of one run.
type issuing struct {
	s    *Sigstore
	what Signing
}

// GetCertificate issues twice: what the log signs is the certificate without the log's own word in it.
func (i *issuing) GetCertificate(_ context.Context, keys sign.Keypair, _ *sign.CertificateProviderOptions) ([]byte, error) {
	san, err := url.Parse(i.what.Identity.Signer)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: i.what.At, NotAfter: i.what.At.Add(10 * time.Minute), URIs: []*url.URL{san},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if template.ExtraExtensions, err = i.what.Identity.extensions(); err != nil {
		return nil, err
	}
	ca := i.s.ca
	first, err := x509.CreateCertificate(rand.Reader, template, ca.intermediate, keys.GetPublicKey(), ca.key)
	if err != nil || i.what.NoSCT {
		return first, err
	}
	precert, err := x509.ParseCertificate(first)
	if err != nil {
		return nil, err
	}
	sct, err := i.s.timestampCertificate(precert, i.what.At)
	if err != nil {
		return nil, err
	}
	template.ExtraExtensions = append(template.ExtraExtensions, sct)
	return x509.CreateCertificate(rand.Reader, template, ca.intermediate, keys.GetPublicKey(), ca.key)
}

// extensions are those of Fulcio. The issuer stands there twice, in the old form and in the new one.
func (id Identity) extensions() ([]pkix.Extension, error) {
	arc := func(n int) asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, n} }
	list := []pkix.Extension{{Id: arc(1), Value: []byte(id.Issuer)}}
	for _, e := range []struct {
		n     int
		value string
	}{
		{8, id.Issuer}, {9, id.Signer}, {10, id.Commit}, {11, id.Runner}, {12, id.Repository}, {13, id.Commit}, {14, id.Ref},
		{18, id.Signer}, {19, id.Commit}, {20, id.Trigger},
	} {
		value, err := asn1.MarshalWithParams(e.value, "utf8")
		if err != nil {
			return nil, err
		}
		list = append(list, pkix.Extension{Id: arc(e.n), Value: value})
	}
	return list, nil
}

// timestampCertificate is the certificate log's word (RFC 6962, 3.2 and 3.3) about a certificate that is to be issued.
func (s *Sigstore) timestampCertificate(precert *x509.Certificate, at time.Time) (pkix.Extension, error) {
	issuer := sha256.Sum256(s.ca.intermediate.RawSubjectPublicKeyInfo)
	when := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	signed := append([]byte{0, 0}, when...) // version 1, a certificate's timestamp
	signed = append(signed, 0, 1)           // of a precertificate
	signed = append(signed, issuer[:]...)
	tbs := precert.RawTBSCertificate
	signed = append(signed, byte(len(tbs)>>16), byte(len(tbs)>>8), byte(len(tbs)))
	signed = append(append(signed, tbs...), 0, 0) // no extensions
	sum := sha256.Sum256(signed)
	signature, err := ecdsa.SignASN1(rand.Reader, s.ct, sum[:])
	if err != nil {
		return pkix.Extension{}, err
	}
	sct := append([]byte{0}, keyID(s.t, s.ct)...)
	sct = append(append(sct, when...), 0, 0, 4, 3) // no extensions; SHA-256 with ECDSA
	sct = append(binary.BigEndian.AppendUint16(sct, uint16(len(signature))), signature...)
	list := binary.BigEndian.AppendUint16(nil, uint16(len(sct)+2))
	list = append(binary.BigEndian.AppendUint16(list, uint16(len(sct))), sct...)
	value, err := asn1.Marshal(list)
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: value}, err
}
