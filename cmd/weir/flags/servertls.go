package flags

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
)

// ServerTLS configures TLS for one listener.
type ServerTLS struct {
	Prefix           string // of the flags: http, grpc
	Listen           string // the flag of the listener: --listen, --grpc-listen
	Certificate, Key string
	ClientCA         string
	ClientNames      []string
}

// Add adds the flags.
func (f *ServerTLS) Add(flags *pflag.FlagSet, prefix, listen string) {
	f.Prefix, f.Listen = prefix, listen
	flags.StringVar(&f.Certificate, prefix+"-cert", "",
		"PEM file with the certificate for "+listen+"; reloaded for each connection; empty disables TLS")
	flags.StringVar(&f.Key, prefix+"-key", "", "PEM file with the private key of --"+prefix+"-cert; reloaded for each connection")
	flags.StringVar(&f.ClientCA, prefix+"-client-ca", "",
		"PEM file with the certificate authorities (CAs) of client certificates for "+listen+"; reloaded for each connection;\n"+
			"empty requires no client certificate")
	flags.StringSliceVar(&f.ClientNames, prefix+"-client-names", nil,
		"DNS names and URIs, one of which must be a subject alternative name of the client certificate; empty accepts all\n"+
			"certificates of --"+prefix+"-client-ca")
}

// Config returns the TLS configuration of the listener at address, nil without TLS.
func (f *ServerTLS) Config(address string) (*tls.Config, error) {
	certificate, key, clientCA, clientNames := "--"+f.Prefix+"-cert", "--"+f.Prefix+"-key", "--"+f.Prefix+"-client-ca", "--"+f.Prefix+"-client-names"
	switch {
	case f.Certificate == "" && f.Key == "" && f.ClientCA == "" && len(f.ClientNames) == 0:
		return nil, nil //nolint:nilnil // the flags configure no TLS
	case address == "":
		return nil, fmt.Errorf("%s, %s, %s and %s require %s, which is empty", certificate, key, clientCA, clientNames, f.Listen)
	case f.Certificate == "" || f.Key == "":
		return nil, fmt.Errorf("set both %s and %s; %s requires both", certificate, key, clientCA)
	case len(f.ClientNames) > 0 && f.ClientCA == "":
		return nil, fmt.Errorf("%s requires %s: only a verified client certificate has a name", clientNames, clientCA)
	}
	reloader, err := cli.NewCertReloader(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", certificate, key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: reloader.GetCertificate}
	if f.ClientCA == "" {
		return config, nil
	}
	cas := cli.NewRenewed(f.ClientCA, func() (*x509.CertPool, error) { return ReadCAs(f.ClientCA) })
	if _, err := cas.Get(); err != nil {
		return nil, fmt.Errorf("%s: %w", clientCA, err)
	}
	// The CAs are verified here, not by the TLS package, whose CAs cannot change. A resumed session is verified too.
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		pool, err := cas.Get()
		if err != nil { // no CA is trusted: the file may have been emptied to revoke them
			return fmt.Errorf("%s: %w", clientCA, err)
		}
		return f.verify(state, pool)
	}
	return config, nil
}

// verify returns an error unless one of the CAs has signed the client certificate and the certificate has one of the client names.
func (f *ServerTLS) verify(state tls.ConnectionState, cas *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has no certificate")
	}
	certificate := state.PeerCertificates[0]
	options := x509.VerifyOptions{Roots: cas, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, intermediate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	if _, err := certificate.Verify(options); err != nil {
		return fmt.Errorf("verify the client certificate: %w", err)
	}
	if len(f.ClientNames) == 0 || slices.ContainsFunc(namesOf(certificate), func(name string) bool { return slices.Contains(f.ClientNames, name) }) {
		return nil
	}
	return fmt.Errorf("the client certificate has the names %q, and --%s-client-names has none of them", namesOf(certificate), f.Prefix)
}

// namesOf returns the subject alternative names that are DNS names or URIs.
func namesOf(certificate *x509.Certificate) []string {
	names := slices.Clone(certificate.DNSNames)
	for _, uri := range certificate.URIs {
		names = append(names, uri.String())
	}
	return names
}

// ReadCAs reads certificate authorities from a PEM file.
func ReadCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no PEM certificate", file)
	}
	return cas, nil
}
