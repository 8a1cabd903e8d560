package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/redisclient/wire"
)

// Explain returns a [*SetupError] with the way out if the options do not fit the servers, else err. It can ask the first address what it is,
// without credentials and without trust in its certificate. [Client.Discover] has explained its errors.
func (c *Client) Explain(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*SetupError](err); ok {
		return err
	}
	o := &c.options
	address := o.Addresses[0]
	if o.Mode == ModeSentinel {
		if found := c.explainSentinels(ctx, err); found != nil {
			return found
		}
	}
	switch kindOf(err) {
	case KindDenied:
		return c.explainDenied(ctx, address, err)
	case KindReadOnly, KindMasterDown:
		if o.Mode == ModeStandalone {
			return replicaError(address, "")
		}
	case KindMisconfigured:
		return c.explainMisconfigured(ctx, address, err)
	case KindUnreachable, KindDisconnected, KindTimeout, KindOther:
		if found := o.explainConnection(ctx, address, err); found != nil {
			return found
		}
	}
	return err
}

// replicaError is the error for the address of a replica.
func replicaError(address, primary string) error {
	of := ""
	if primary != "" {
		of = " of " + primary
	}
	return &SetupError{Advice: address + " is a replica" + of + ", which rejects writes: use the address of the primary, or the Sentinels that know it"}
}

// sentinelError is the error for the address of a Sentinel in place of that of a server.
func (c *Client) sentinelError(address string, info map[string]string) error {
	name := "NAME"
	monitors := ""
	if names := monitored(info); len(names) > 0 {
		name, monitors = names[0], " that monitors "+strings.Join(names, ", ")
	}
	return &SetupError{Advice: fmt.Sprintf("%s is a Sentinel%s, not a Redis server: add master=%s to the URL (in a Limiter: set spec.redis.masterName)",
		address, monitors, name)}
}

// monitored returns the names of the primaries that a Sentinel monitors, from its reply to INFO.
func monitored(info map[string]string) []string {
	var names []string
	pattern := regexp.MustCompile(`^name=([^,]+),`)
	for field, value := range info {
		if match := pattern.FindStringSubmatch(value); match != nil && strings.HasPrefix(field, "master") {
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return names
}

// explainSentinels asks each Sentinel which primaries it monitors. It returns nil if that does not explain the error.
func (c *Client) explainSentinels(ctx context.Context, err error) error {
	o := c.options
	for _, address := range o.Addresses {
		username, password := c.sentinelCredentials()
		info, asked := o.inspectWith(ctx, address, username, password)
		switch {
		case asked != nil && kindOf(asked) == KindDenied:
			return &SetupError{"the Sentinel " + address + " rejects the credentials: check sentinel_username and sentinel_password of the URL, " +
				"or sentinel-username and sentinel-password of the directory or Secret", asked}
		case asked != nil:
			if found := o.explainConnection(ctx, address, asked); found != nil {
				return found
			}
		case (description{info: info}).mode() != "sentinel" && (description{info: info}).mode() != "":
			return &SetupError{address + " is a Redis server, not a Sentinel: use the addresses of the Sentinels, or remove master from the URL " +
				"(in a Limiter: masterName)", nil}
		case len(info) > 0 && !slices.Contains(monitored(info), o.MasterName):
			return &SetupError{fmt.Sprintf("the Sentinel %s does not monitor %q: use one of the names that it monitors: %s", address, o.MasterName,
				strings.Join(monitored(info), ", ")), err}
		}
	}
	return nil
}

// inspectWith returns the reply of a server to INFO, with other credentials than those of the options. It returns nothing without permission.
func (o *Options) inspectWith(ctx context.Context, address, username, password string) (map[string]string, error) {
	other := *o
	o = &other
	o.Mode, o.MasterName, o.Database, o.Addresses = ModeStandalone, "", 0, []string{address}
	o.Username, o.Password, o.Credentials, o.RenewCredentials = username, password, nil, 0
	o.Renew, o.KeepConnections, o.SentinelCredentials = nil, 0, nil
	client, err := New(other)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	info, err := client.Redis().Info(ctx).Result()
	if kindOf(err) == KindDenied && strings.HasPrefix(err.Error(), "NOPERM") {
		return map[string]string{}, nil
	}
	return infoFields(info), err
}

// explainSentinelAddress returns an error if a Sentinel is at the address of a server. A Sentinel without users rejects the credentials of the
// servers, and does not have all of their commands.
func (c *Client) explainSentinelAddress(ctx context.Context, address string) error {
	if c.options.Mode == ModeSentinel {
		return nil
	}
	if info, err := c.options.inspectWith(ctx, address, "", ""); err == nil && (description{info: info}).isSentinel() {
		return c.sentinelError(address, info)
	}
	return nil
}

// explainDenied explains rejected credentials.
func (c *Client) explainDenied(ctx context.Context, address string, err error) error {
	if found := c.explainSentinelAddress(ctx, address); found != nil {
		return found
	}
	switch text := err.Error(); {
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "unauthenticated"):
		return &SetupError{address + " requires a password: add user and password to the URL, or set --redis-credentials " +
			"(in a Limiter: spec.redis.credentialsSecretRef)", err}
	case strings.Contains(text, "NOPERM"):
		return &SetupError{"the user of " + address + " lacks a permission: grant those that docs/reference/redis.md lists", err}
	case c.options.DeniedAdvice != "":
		return &SetupError{address + " rejects the token: " + c.options.DeniedAdvice, err}
	default:
		return &SetupError{address + " rejects the user or the password: check the credentials", err}
	}
}

func (c *Client) explainMisconfigured(ctx context.Context, address string, err error) error {
	if found := c.explainSentinelAddress(ctx, address); found != nil {
		return found
	}
	switch text := err.Error(); {
	case strings.Contains(text, "cluster support disabled"):
		return &SetupError{address + " is not a node of a Redis Cluster: remove cluster=true and the other addresses from the URL " +
			"(in a Limiter: use mode Auto with one address)", err}
	case strings.Contains(text, "DB index"):
		return &SetupError{fmt.Sprintf("%s has no database %d: use database 0, or another one that exists; Redis has as many as its setting databases",
			address, c.options.Database), err}
	case strings.Contains(text, "SELECT is not allowed in cluster mode"):
		return databaseError(address, c.options.Database, err)
	default:
		return err
	}
}

// databaseError is the error for a database of a cluster.
func databaseError(address string, database int, cause error) error {
	return &SetupError{fmt.Sprintf("%s is a node of a Redis Cluster, which has only database 0: use database 0 in place of %d", address, database), cause}
}

// explainConnection asks the server at address what it is. It returns nil if that does not explain the error.
func (o *Options) explainConnection(ctx context.Context, address string, err error) error {
	var untrusted *tls.CertificateVerificationError
	var operation *net.OpError
	switch {
	case errors.As(err, &untrusted):
		return &SetupError{o.certificateAdvice(address, untrusted), err}
	case errors.As(err, &operation) && operation.Op == "dial", errors.Is(err, context.Canceled):
		return nil // nothing listens, or no such name: the error is clear
	}
	switch found := o.identify(ctx, address); {
	case found == wire.HTTP, found == wire.HTTPS:
		return &SetupError{address + " is an HTTP server, not Redis: check host and port", err}
	case o.TLS == nil && (found == wire.RedisTLS || found == wire.TLS):
		return &SetupError{address + " requires TLS: use rediss:// in place of redis:// (in a Limiter: set spec.redis.tls)", err}
	case o.TLS != nil && found == wire.Redis:
		return &SetupError{address + " does not use TLS: use redis:// in place of rediss:// (in a Limiter: remove spec.redis.tls), or the port with TLS", err}
	case o.TLS != nil && found == wire.TLS, wire.IsAlert(err):
		return &SetupError{address + " accepts TLS, but not this client: check the client certificate, --redis-cert and --redis-key " +
			"(in a Limiter: tls.crt and tls.key of spec.redis.tls.secretRef), and that the port is that of Redis", err}
	default:
		return nil
	}
}

func (o *Options) certificateAdvice(address string, err *tls.CertificateVerificationError) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return "the certificate of " + address + " is not valid for this name: connect with a name that the certificate contains"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate of " + address + " is outside its validity: renew it, or correct the clock of this machine"
	default:
		return "the certificate of " + address + " is not trusted: set --redis-ca to the CAs that sign it (in a Limiter: ca.crt of spec.redis.tls.secretRef)"
	}
}

// identify finds out what the server at address is.
func (o *Options) identify(ctx context.Context, address string) wire.Server {
	if o.DialAddress != nil {
		address = o.DialAddress(address)
	}
	serverName := ""
	if o.TLS != nil {
		serverName = o.TLS.ServerName
	}
	return wire.Identify(ctx, address, serverName, o.dialTimeout())
}
