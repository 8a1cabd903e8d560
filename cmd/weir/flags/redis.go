// Package flags has the flags that commands of weir share: Redis, TLS, the decision log and traces. It opens what they configure.
package flags

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/identity/providers"
)

// credentialsInterval is how often the files with credentials are read while there are connections.
const credentialsInterval = 200 * time.Millisecond

// RedisTLS has what access to Redis needs besides the URL: a directory with credentials or a provider of tokens, and PEM files for a rediss:// URL.
type RedisTLS struct {
	Ca          string
	Cert        string
	Key         string
	credentials string
	auth        string
	user        string
	cache       string
	region      string
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
			"The optional files sentinel-username and sentinel-password are for Sentinels; empty uses the credentials in the URL")
	flags.StringVar(&f.auth, "redis-auth", "", "service whose tokens authenticate with Redis, in place of a password: ElastiCache, ElastiCacheServerless,\n"+
		"MemoryDB (AWS IAM), Google (Memorystore with IAM) or Azure (Microsoft Entra ID). The identity is that of the pod or the machine.\n"+
		"It requires a URL that starts with rediss://; empty uses passwords")
	flags.StringVar(&f.user, "redis-auth-user", "",
		"user of the service. Required for ElastiCache and MemoryDB; the object ID for Azure, empty uses that in the token")
	flags.StringVar(&f.cache, "redis-auth-cache", "",
		"name of the cache or replication group of ElastiCache, or of the cluster of MemoryDB, for which tokens are signed")
	flags.StringVar(&f.region, "redis-auth-region", "", "AWS region of the cache; empty uses the environment variable AWS_REGION")
}

// OpenRedis returns a client for a URL. It does not connect. Errors contain no part of the URL, because it can contain passwords. The log has a line
// when tokens cannot be renewed.
func OpenRedis(address string, files RedisTLS, timeout time.Duration, log *slog.Logger) (*redisclient.Client, error) {
	options, err := redisclient.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	if err := errors.Join(files.AddTLS(&options), files.addCredentials(&options), files.addTokens(&options, log)); err != nil {
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

// addTokens makes the tokens of a provider the credentials.
func (f *RedisTLS) addTokens(options *redisclient.Options, log *slog.Logger) error {
	switch {
	case f.auth == "" && f.user == "" && f.cache == "" && f.region == "":
		return nil
	case f.auth == "":
		return errors.New("--redis-auth-user, --redis-auth-cache and --redis-auth-region require --redis-auth")
	case f.credentials != "" || options.Username != "" || options.Password != "":
		return errors.New("--redis-auth: the Redis URL or --redis-credentials contains credentials too; remove one of the two")
	case options.Mode == redisclient.ModeSentinel:
		return errors.New("--redis-auth: these services do not have Sentinels; use the address of the cache, without master in the URL")
	case options.TLS == nil:
		return errors.New("--redis-auth requires TLS, because who reads a token can use it: use a URL that starts with rediss://")
	}
	provider, err := providers.Open(providers.Settings{Kind: providers.Kind(f.auth), User: f.user, Cache: f.cache, Region: f.region})
	if err != nil {
		return fmt.Errorf("--redis-auth: %w", err)
	}
	identity.NewSource(provider, log).AddTo(options)
	return nil
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
	lastSentinel := cli.NewRenewed(sentinel, func() (user, error) {
		name, password, err := f.readCredentials("sentinel-username", "sentinel-password")
		return user{name, password}, err
	})
	options.SentinelCredentials = func(context.Context) (username, password string, err error) {
		now, err := lastSentinel.Get()
		return now.name, now.password, err
	}
	_, err := lastSentinel.Get()
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
