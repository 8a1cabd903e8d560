package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/redisstore"
)

// redisTLSFlags are the PEM files for a rediss:// URL.
type redisTLSFlags struct {
	ca   string
	cert string
	key  string
}

func (f *redisTLSFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.ca, "redis-ca", "", "PEM file of the authorities that vouch for Redis (default: those of the system)")
	flags.StringVar(&f.cert, "redis-cert", "", "PEM file of the certificate to show to Redis; read again for every connection")
	flags.StringVar(&f.key, "redis-key", "", "PEM file of the key of --redis-cert")
}

// openRedis makes a client for a URL. It does not connect. No error holds any part of the URL, for its passwords.
func openRedis(url string, files redisTLSFlags, timeout time.Duration) (*redisstore.Client, error) {
	options, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	if err := files.apply(options.TLS); err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	options.Timeout = timeout
	return redisstore.New(options)
}

// apply adds to config, which is nil where nobody speaks TLS, what the files hold.
func (f *redisTLSFlags) apply(config *tls.Config) error {
	switch {
	case *f == redisTLSFlags{}:
		return nil
	case config == nil:
		return errors.New("--redis-ca, --redis-cert and --redis-key are for TLS: begin the URL with rediss://")
	case (f.cert == "") != (f.key == ""):
		return errors.New("--redis-cert and --redis-key go together")
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("--redis-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--redis-ca: %s holds no certificate", f.ca)
		}
	}
	if f.cert == "" {
		return nil
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() }
	_, err := f.pair()
	return err
}

// pair reads the files anew: whoever renews certificates replaces them.
func (f *redisTLSFlags) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--redis-cert, --redis-key: %w", err)
	}
	return &pair, nil
}
