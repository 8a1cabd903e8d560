// Package mutualtls secures the connections of the operator to the admin endpoints of limiters. Each side knows the public key of the other
// side, so there are no CAs, and no certificate expires: the keys are derived from the hash keys, and change with them.
package mutualtls

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// OperatorKey returns the private key of the operator of an installation, from its master hash key.
func OperatorKey(master *limiter.HashKey) ed25519.PrivateKey {
	return derive(master, "mutual TLS of the operator")
}

// LimiterKey returns the private key of all limiters with this hash key.
func LimiterKey(hashKey *limiter.HashKey) ed25519.PrivateKey {
	return derive(hashKey, "mutual TLS of limiters")
}

func derive(key *limiter.HashKey, purpose string) ed25519.PrivateKey {
	seed, err := hex.DecodeString(string(key.Derive(purpose).Text()))
	if err != nil { // impossible: derived keys are the hex form of 32 bytes
		panic(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}

// PublicText returns the public key of a private key as text.
func PublicText(key ed25519.PrivateKey) string {
	public, _ := key.Public().(ed25519.PublicKey) // never another type
	return base64.RawURLEncoding.EncodeToString(public)
}

// ParsePublic is the inverse of PublicText.
func ParsePublic(text string) (ed25519.PublicKey, error) {
	key, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(key) != ed25519.PublicKeySize {
		err = fmt.Errorf("got %d bytes, want %d", len(key), ed25519.PublicKeySize)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a public key: %w", text, err)
	}
	return key, nil
}

// Server returns the configuration of a server with its own key that accepts only the client with the public key.
func Server(own ed25519.PrivateKey, client ed25519.PublicKey) (*tls.Config, error) {
	config, err := both(own, client)
	if err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAnyClientCert // its key is verified in VerifyConnection
	return config, nil
}

// Client returns the configuration of a client with its own key that accepts only servers with the public key.
func Client(own ed25519.PrivateKey, server ed25519.PublicKey) (*tls.Config, error) {
	config, err := both(own, server)
	if err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = true // the key is verified in VerifyConnection: it stands for the name of the server
	return config, nil
}

func both(own ed25519.PrivateKey, peer ed25519.PublicKey) (*tls.Config, error) {
	certificate, err := selfSigned(own)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		// The handshake has proved that the peer has the private key of its certificate. A resumed session is verified too.
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !peer.Equal(state.PeerCertificates[0].PublicKey) {
				return errors.New("the peer has another key than expected")
			}
			return nil
		},
	}, nil
}

// selfSigned returns a certificate around a key. Only the key is verified.
func selfSigned(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "weir"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // no expiry, RFC 5280 section 4.1.2.5
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("create a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
