package main

import (
	"crypto/tls"
	"sync/atomic"
)

// keyPair is a certificate and its key in files that somebody renews.
type keyPair struct {
	certificate, key string
	read             atomic.Pointer[tls.Certificate] // last
}

// openKeyPair reads the files once, to tell now that they cannot be.
func openKeyPair(certificate, key string) (*keyPair, error) {
	k := &keyPair{certificate: certificate, key: key}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	k.read.Store(&pair)
	return k, nil
}

// show is a GetCertificate: it reads the files for every connection, so that renewed ones need no restart. While they do not
// go together, as in the moment between two writes, it shows what they were before.
func (k *keyPair) show(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(k.certificate, k.key)
	if err != nil {
		return k.read.Load(), nil //nolint:nilerr // see above
	}
	k.read.Store(&pair)
	return &pair, nil
}
