package certificate

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. All but the last are also used by cert-manager.
const (
	keyCertificate = corev1.TLSCertKey
	keyPrivate     = corev1.TLSPrivateKeyKey
	keyBundle      = "ca.crt"
	keyCAs         = "authorities.json"
)

// storedCA is a CA as stored in the Secret.
type storedCA struct {
	Certificate string    `json:"certificate"`
	Key         string    `json:"key,omitempty"`
	Carried     time.Time `json:"carried,omitzero"`
	Needed      time.Time `json:"needed,omitzero"`
}

// encode returns the data of the Secret. It is deterministic.
func (s State) encode() (map[string][]byte, error) {
	stored := make([]storedCA, len(s.CAs))
	for i, a := range s.CAs {
		key, err := encodeKey(a.Key)
		if err != nil {
			return nil, err
		}
		stored[i] = storedCA{string(encodeCertificate(a.Certificate)), string(key), a.PublishedSince.UTC(), a.NeededUntil.UTC()}
	}
	cas, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("encode the CAs: %w", err)
	}
	key, err := encodeKey(s.Serving.Key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyCertificate: encodeCertificate(s.Serving.Certificate), keyPrivate: key, keyBundle: s.Bundle(), keyCAs: cas,
	}, nil
}

// decode is the inverse of encode.
func decode(data map[string][]byte) (State, error) {
	var stored []storedCA
	if err := json.Unmarshal(data[keyCAs], &stored); err != nil {
		return State{}, fmt.Errorf("%s: %w", keyCAs, err)
	}
	var s State
	for i, a := range stored {
		pair, err := decodePair([]byte(a.Certificate), []byte(a.Key))
		if err != nil {
			return State{}, fmt.Errorf("%s: CA %d: %w", keyCAs, i, err)
		}
		s.CAs = append(s.CAs, CA{pair, a.Carried, a.Needed})
	}
	var err error
	if s.Serving, err = decodePair(data[keyCertificate], data[keyPrivate]); err != nil {
		return State{}, fmt.Errorf("%s and %s: %w", keyCertificate, keyPrivate, err)
	}
	if s.Serving.Key == nil {
		return State{}, fmt.Errorf("%s is missing", keyPrivate)
	}
	return s, nil
}

// decodePair decodes a certificate and, if there is one, its key.
func decodePair(certificate, key []byte) (Pair, error) {
	found := decodeCertificates(certificate)
	if len(found) != 1 {
		return Pair{}, fmt.Errorf("%d certificates, want one", len(found))
	}
	if len(key) == 0 {
		return Pair{Certificate: found[0]}, nil
	}
	block, _ := pem.Decode(key)
	if block == nil {
		return Pair{}, errors.New("the key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Pair{}, err // the error does not contain the key
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !private.PublicKey.Equal(found[0].PublicKey) {
		return Pair{}, errors.New("the key does not belong to the certificate")
	}
	return Pair{found[0], private}, nil
}

// decodeCertificates returns the certificates in PEM text. It skips everything else.
func decodeCertificates(text []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != pemCertificate || len(block.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, c)
		}
	}
	return found
}

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

func encodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}
