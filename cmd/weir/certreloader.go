package main

import (
	"crypto/tls"
	"sync/atomic"
)

// certReloader serves a certificate and its key from files that are renewed while the process runs.
type certReloader struct {
	certificate, key string
	last             atomic.Pointer[tls.Certificate] // the last valid pair
}

// newCertReloader reads the files once. The error is that of unreadable or mismatched files.
func newCertReloader(certificate, key string) (*certReloader, error) {
	r := &certReloader{certificate: certificate, key: key}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	r.last.Store(&pair)
	return r, nil
}

// getCertificate is a tls.Config.GetCertificate. It reads the files for each connection, so a renewed certificate needs no
// restart. While the files do not match, as between two writes, it returns the previous pair.
func (r *certReloader) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return r.last.Load(), nil //nolint:nilerr // see above
	}
	r.last.Store(&pair)
	return &pair, nil
}
