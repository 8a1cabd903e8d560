// Package nodecert verifies the certificates of cluster nodes that announce IP addresses. Services announce them, and have certificates for the name of
// their endpoint only.
package nodecert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// EndpointOf returns the name of the endpoint that has announced the host of a node: the first name among the addresses of the configuration, which are
// host:port. It is "" if the host is a name, or one of these addresses.
func EndpointOf(host string, addresses []string) (name string) {
	if net.ParseIP(host) == nil {
		return ""
	}
	for _, address := range addresses {
		configured, _, err := net.SplitHostPort(address)
		if err != nil || configured == host {
			return ""
		}
		if name == "" && net.ParseIP(configured) == nil {
			name = configured
		}
	}
	return name
}

// Accept makes a configuration accept a certificate of a trusted CA that is valid for the IP address of a node, or for the name of the endpoint that
// has announced it. It requests the name (SNI). Set the RootCAs of the configuration before the handshake.
func Accept(config *tls.Config, ip, endpoint string) {
	config.ServerName = endpoint
	config.InsecureSkipVerify = true // VerifyConnection verifies
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(config.RootCAs, state.PeerCertificates, endpoint)
		if _, other := errors.AsType[x509.HostnameError](err); other {
			err = verify(config.RootCAs, state.PeerCertificates, ip)
		}
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}

func verify(roots *x509.CertPool, chain []*x509.Certificate, name string) error {
	options := x509.VerifyOptions{Roots: roots, DNSName: name, Intermediates: x509.NewCertPool()}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	_, err := chain[0].Verify(options)
	return err
}
