package updatetest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
)

// timestamper is a timestamp authority (RFC 3161).
type timestamper struct {
	root, leaf *x509.Certificate
	key        *ecdsa.PrivateKey
}

func newTimestamper(t testing.TB, from time.Time) *timestamper {
	rootKey, key := newKey(t), newKey(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "time", Organization: []string{"example"}}, NotBefore: from, NotAfter: from.AddDate(40, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root = issue(t, root, root, rootKey, rootKey)
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "stamp", Organization: []string{"example"}}, NotBefore: from, NotAfter: from.AddDate(40, 0, 0),
		KeyUsage:        x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}}, // verifiers ask for critical
	}
	return &timestamper{root, issue(t, leaf, root, key, rootKey), key}
}

// stamping is the authority as the signing library reaches it, at a time of the test's choosing.
type stamping struct {
	*timestamper
	at time.Time
}

func (s stamping) RoundTrip(req *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	asked, err := timestamp.ParseRequest(text)
	if err != nil {
		return nil, err
	}
	stamp := timestamp.Timestamp{
		HashAlgorithm: asked.HashAlgorithm, HashedMessage: asked.HashedMessage, Time: s.at.UTC(), Policy: asn1.ObjectIdentifier{1, 2, 3, 4},
		Nonce: asked.Nonce, AddTSACertificate: asked.Certificates,
	}
	answer, err := stamp.CreateResponseWithOpts(s.leaf, s.key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(bytes.NewReader(answer)), Request: req, Header: http.Header{}}, nil
}
