package cli

import (
	"crypto/tls"
	"sync/atomic"
)

// CertReloader serves a certificate and its key from files that are renewed while the process runs.
type CertReloader struct {
	certificate, key string
	last             atomic.Pointer[tls.Certificate] // the last valid pair
}

// NewCertReloader reads the files once. The error is that of unreadable or mismatched files.
func NewCertReloader(certificate, key string) (*CertReloader, error) {
	r := &CertReloader{certificate: certificate, key: key}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	r.last.Store(&pair)
	return r, nil
}

// GetCertificate is a tls.Config.GetCertificate. It reads the files for each connection, so a renewed certificate needs no
// restart. While the files do not match, as between two writes, it returns the previous pair.
func (r *CertReloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return r.last.Load(), nil //nolint:nilerr // see above
	}
	r.last.Store(&pair)
	return &pair, nil
}
