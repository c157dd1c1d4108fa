package transfer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// print is the SHA-256 of a certificate.
type print [sha256.Size]byte

// name is what a node calls itself in its hello, which everyone on the way can read: whoever comes with it must still have
// the certificate's key.
func (p print) name() string { return hex.EncodeToString(p[:16]) + ".kv" }

// identity is this process's certificate for the direct path. Nothing but its fingerprint is ever looked at.
type identity struct {
	cert  tls.Certificate
	print print
}

func newIdentity() (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("making the key of the direct path: %w", err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)} // clocks differ
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return identity{}, fmt.Errorf("making the certificate of the direct path: %w", err)
	}
	return identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, sha256.Sum256(der)}, nil
}

// errPin ends a handshake, on either side.
var errPin = errors.New("the certificate is not the one whose fingerprint came over the mesh")

// pinned checks that the other side has the certificate with this fingerprint; TLS has checked that it has the key.
func pinned(want print) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errPin
		}
		if got := sha256.Sum256(s.PeerCertificates[0].Raw); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return errPin
		}
		return nil
	}
}

// dials is how this node comes to the one with the fingerprint.
func (id identity) dials(to print) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, ServerName: id.print.name(), NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, VerifyConnection: pinned(to), // no authority vouches for either side: the pin takes its place
	}
}

// answers is how it is come to, by who is on the list. A stranger's hello ends in an alert, before this side has said or shown
// anything.
func (id identity) answers(list *guests) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			guest, ok := list.named(h.ServerName)
			if !ok {
				return nil, errPin
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.cert}, NextProtos: []string{"http/1.1"},
				ClientAuth: tls.RequireAnyClientCert, VerifyConnection: pinned(guest.print), SessionTicketsDisabled: true,
			}, nil
		},
	}
}
