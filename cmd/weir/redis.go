package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// redisTLSFlags are the files that say who may enter Redis: a directory of credentials, and the PEM files for a
// rediss:// URL.
type redisTLSFlags struct {
	ca          string
	cert        string
	key         string
	credentials string
}

func (f *redisTLSFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.ca, "redis-ca", "", "PEM file of the authorities that vouch for Redis; read again for every connection\n"+
		"(default: those of the system)")
	flags.StringVar(&f.cert, "redis-cert", "", "PEM file of the certificate to show to Redis; read again for every connection")
	flags.StringVar(&f.key, "redis-key", "", "PEM file of the key of --redis-cert")
	flags.StringVar(&f.credentials, "redis-credentials", "",
		"directory with the files username, which may be absent, and password, as a Secret is mounted; read again for every\n"+
			"connection. Also sentinel-username and sentinel-password, read at start (default: what the URL says)")
}

// openRedis makes a client for a URL. It does not connect. No error holds any part of the URL, for its passwords.
func openRedis(url string, files redisTLSFlags, timeout time.Duration) (*redisclient.Client, error) {
	options, err := redisclient.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	if err := errors.Join(files.secure(&options), files.enter(&options)); err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	options.Timeout = timeout
	return redisclient.New(options)
}

// secure adds to options.TLS, which is nil where nobody speaks TLS, what the files hold.
func (f *redisTLSFlags) secure(options *redisclient.Options) error {
	switch {
	case f.ca == "" && f.cert == "" && f.key == "":
		return nil
	case options.TLS == nil:
		return errors.New("--redis-ca, --redis-cert and --redis-key are for TLS: begin the URL with rediss://")
	case (f.cert == "") != (f.key == ""):
		return errors.New("--redis-cert and --redis-key go together")
	}
	if f.ca != "" {
		if _, err := f.authorities(); err != nil {
			return err
		}
		options.RootCAs = f.authorities
	}
	if f.cert == "" {
		return nil
	}
	options.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() }
	_, err := f.pair()
	return err
}

// authorities reads the file anew: whoever changes authorities replaces it.
func (f *redisTLSFlags) authorities() (*x509.CertPool, error) {
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--redis-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--redis-ca: %s holds no certificate", f.ca)
	}
	return pool, nil
}

// pair reads the files anew: whoever renews certificates replaces them.
func (f *redisTLSFlags) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--redis-cert, --redis-key: %w", err)
	}
	return &pair, nil
}

// enter adds to options what the directory of credentials holds.
func (f *redisTLSFlags) enter(options *redisclient.Options) error {
	if f.credentials == "" {
		return nil
	}
	if options.Username != "" || options.Password != "" {
		return errors.New("--redis-credentials: the URL has credentials too; leave them out of one of the two")
	}
	read := func(context.Context) (username, password string, err error) { return f.login("username", "password") }
	if _, _, err := read(context.Background()); err != nil {
		return err
	}
	options.Credentials = read
	sentinel := filepath.Join(f.credentials, "sentinel-password")
	if _, err := os.Stat(sentinel); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var err error
	options.SentinelUsername, options.SentinelPassword, err = f.login("sentinel-username", "sentinel-password")
	return err
}

// login reads the two files; the one with the name may be absent. No error holds what is in them.
func (f *redisTLSFlags) login(nameFile, passwordFile string) (username, password string, err error) {
	text, err := os.ReadFile(filepath.Join(f.credentials, passwordFile))
	if err != nil {
		return "", "", fmt.Errorf("--redis-credentials: %w", err)
	}
	name, err := os.ReadFile(filepath.Join(f.credentials, nameFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("--redis-credentials: %w", err)
	}
	return line(name), line(text), nil
}

// line is text without the end of line that editors add.
func line(text []byte) string { return strings.TrimRight(string(text), "\r\n") }
