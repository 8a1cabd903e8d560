// Package flags has the flags that commands of weir share: Redis, TLS, the decision log and traces. It opens what they configure.
package flags

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// credentialsInterval is how often the files with credentials are read while there are connections.
const credentialsInterval = 200 * time.Millisecond

// RedisTLS has the files for access to Redis: a directory with credentials, and PEM files for a rediss:// URL.
type RedisTLS struct {
	Ca          string
	Cert        string
	Key         string
	credentials string
}

// Add adds the flags.
func (f *RedisTLS) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Ca, "redis-ca", "", "PEM file with the certificate authorities (CAs) of the Redis certificate; reloaded for each connection;\n"+
		"empty uses the CAs of the system")
	flags.StringVar(&f.Cert, "redis-cert", "", "PEM file with the client certificate for Redis; reloaded for each connection")
	flags.StringVar(&f.Key, "redis-key", "", "PEM file with the private key of --redis-cert; reloaded for each connection")
	flags.StringVar(&f.credentials, "redis-credentials", "",
		"directory with the files username (optional) and password, for example a mounted Secret; reloaded for each connection\n"+
			"and whenever they change, when open connections are replaced.\n"+
			"The optional files sentinel-username and sentinel-password are read at start; empty uses the credentials in the URL")
}

// OpenRedis returns a client for a URL. It does not connect. Errors contain no part of the URL, because it can contain passwords.
func OpenRedis(address string, files RedisTLS, timeout time.Duration) (*redisclient.Client, error) {
	options, err := redisclient.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	if err := errors.Join(files.AddTLS(&options), files.addCredentials(&options)); err != nil {
		return nil, err
	}
	options.Timeout = timeout
	return redisclient.New(options)
}

// RedisPlace returns a Redis URL without user, password and options, so that it can be logged.
func RedisPlace(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "unknown" // OpenRedis has rejected it
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// AddTLS adds the certificates in the files to options.TLS, which is nil without TLS.
func (f *RedisTLS) AddTLS(options *redisclient.Options) error {
	switch {
	case f.Ca == "" && f.Cert == "" && f.Key == "":
		return nil
	case options.TLS == nil:
		return errors.New("--redis-ca, --redis-cert and --redis-key require TLS: use a URL that starts with rediss://")
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("set both --redis-cert and --redis-key, or neither")
	}
	if f.Ca != "" {
		cas := cli.NewRenewed(f.Ca, f.readCAs)
		if _, err := cas.Get(); err != nil {
			return err
		}
		options.RootCAs = cas.Get
	}
	if f.Cert == "" {
		return nil
	}
	pair := cli.NewRenewed(f.Cert, f.readKeyPair)
	options.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get() }
	_, err := pair.Get()
	return err
}

// readCAs reads the file for each connection, so a change of CAs needs no restart.
func (f *RedisTLS) readCAs() (*x509.CertPool, error) {
	pool, err := ReadCAs(f.Ca)
	if err != nil {
		return nil, fmt.Errorf("--redis-ca: %w", err)
	}
	return pool, nil
}

// readKeyPair reads the files for each connection, so a renewed certificate needs no restart.
func (f *RedisTLS) readKeyPair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("--redis-cert, --redis-key: %w", err)
	}
	return &pair, nil
}

// addCredentials adds the credentials in the directory to options.
func (f *RedisTLS) addCredentials(options *redisclient.Options) error {
	if f.credentials == "" {
		return nil
	}
	if options.Username != "" || options.Password != "" {
		return errors.New("--redis-credentials: the Redis URL contains credentials too; remove one of the two")
	}
	type user struct{ name, password string }
	hadPassword := false
	last := cli.NewRenewed(filepath.Join(f.credentials, "password"), func() (user, error) {
		name, password, err := f.readCredentials("username", "password")
		if err == nil && password == "" && hadPassword {
			err = errors.New("--redis-credentials: the file password is empty")
		}
		hadPassword = hadPassword || password != ""
		return user{name, password}, err
	})
	if _, err := last.Get(); err != nil {
		return err
	}
	options.RenewCredentials = credentialsInterval
	options.Credentials = func(context.Context) (username, password string, err error) {
		now, err := last.Get()
		return now.name, now.password, err
	}
	sentinel := filepath.Join(f.credentials, "sentinel-password")
	if _, err := os.Stat(sentinel); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var err error
	options.SentinelUsername, options.SentinelPassword, err = f.readCredentials("sentinel-username", "sentinel-password")
	return err
}

// readCredentials reads the two files. The file with the name is optional. Errors contain no content of the files.
func (f *RedisTLS) readCredentials(nameFile, passwordFile string) (username, password string, err error) {
	text, err := os.ReadFile(filepath.Join(f.credentials, passwordFile))
	if err != nil {
		return "", "", fmt.Errorf("--redis-credentials: %w", err)
	}
	name, err := os.ReadFile(filepath.Join(f.credentials, nameFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("--redis-credentials: %w", err)
	}
	return cli.TrimNewline(name), cli.TrimNewline(text), nil
}
