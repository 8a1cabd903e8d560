package redisclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Mode is the topology of Redis.
type Mode string

// The modes.
const (
	ModeStandalone Mode = "Standalone" // one server, or a proxy or service that behaves like one
	ModeSentinel   Mode = "Sentinel"   // a primary whose address the Sentinels return, and which they replace when it fails
	ModeCluster    Mode = "Cluster"    // Redis Cluster
)

// Options describe how to connect to Redis.
type Options struct {
	Mode Mode
	// Addresses, as host:port: the server; or some of the Sentinels; or some of the nodes of the cluster. The client
	// discovers the rest, so list enough addresses that one of them is always reachable.
	Addresses []string
	// MasterName is the name under which the Sentinels monitor the primary.
	MasterName string
	// Database is 0 or greater; a cluster has only database 0.
	Database int
	// Username and Password for the servers. A password without a username authenticates the default user.
	Username, Password string
	// Credentials, if not nil, replaces Username and Password. The client calls it for every new connection to a server, so
	// that changed credentials need no restart.
	Credentials func(context.Context) (username, password string, err error)
	// RenewCredentials is how often the client also calls Credentials while it has connections. If they have changed, it authenticates its open
	// connections again, because some servers close a connection whose token has expired. With 0, they stay as they are.
	RenewCredentials time.Duration
	// KeepConnections is how long connections stay open although the credentials have changed, for servers that keep a connection when its
	// credentials expire. With 0, each change replaces the connections.
	KeepConnections time.Duration
	// DeniedAdvice is what to check if Redis rejects Credentials, for messages; empty for passwords.
	DeniedAdvice string
	// Renew, if not nil, keeps what Credentials returns up to date. [New] calls it in a goroutine. Its context ends with the Client.
	Renew func(context.Context)
	// SentinelUsername and SentinelPassword for the Sentinels. They can be empty or differ from those for the servers.
	SentinelUsername, SentinelPassword string
	// SentinelCredentials, if not nil, replaces SentinelUsername and SentinelPassword. [New] calls it, and with RenewCredentials the client calls
	// it again, as Credentials.
	SentinelCredentials func(context.Context) (username, password string, err error)
	// TLS encrypts connections to servers and Sentinels; nil for plain TCP.
	TLS *tls.Config
	// RootCAs, if not nil, replaces TLS.RootCAs. The client calls it for every new connection. A nil pool means the CAs of
	// the system.
	RootCAs func() (*x509.CertPool, error)
	// DialAddress, if not nil, maps an address, host:port, to the address to dial: for host names that mean something
	// else where the client runs. TLS verifies the server certificate against the original host name.
	DialAddress func(address string) string
	// Timeout for one command; positive.
	Timeout time.Duration
}

// The query parameters of a URL.
const (
	paramAddr             = "addr"    // another address of the cluster or of a Sentinel; can be repeated
	paramCluster          = "cluster" // "true": Redis Cluster, even if the URL has only one address
	paramMaster           = "master"  // the addresses are those of Sentinels, which monitor the primary under this name
	paramSentinelUsername = "sentinel_username"
	paramSentinelPassword = "sentinel_password"
)

// The ports of addresses without a port.
const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"
)

// errURL contains no part of the URL because the URL can contain a password. For the same reason this package does not
// return the errors of URL parsers, which quote their input.
var errURL = errors.New("invalid Redis URL: must be redis://[user:password@]host:port[/database] " +
	"(percent-encode special characters of the password)")

// ParseURL reads all Options except the timeout from one of
//
//	redis://user:password@host:6379/0                         one server
//	redis://user:password@a:6379?addr=b:6379&addr=c:6379      a cluster with three known nodes
//	redis://user:password@a:6379?cluster=true                 a cluster with one known node
//	redis://user:password@a:26379/0?addr=b:26379&master=name  the primary that Sentinels a and b monitor under that name
//
// rediss:// uses TLS. The credentials for the Sentinels themselves are sentinel_username and sentinel_password. Errors
// contain no part of the URL because the URL can contain passwords.
func ParseURL(raw string) (Options, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Fragment != "" { // a fragment starts at a "#" in a password
		return Options{}, errURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Options{}, errURL
	}
	o := Options{Mode: modeOf(query), MasterName: query.Get(paramMaster), Username: u.User.Username()}
	o.Password, _ = u.User.Password()
	o.SentinelUsername, o.SentinelPassword = query.Get(paramSentinelUsername), query.Get(paramSentinelPassword)
	if u.Scheme == "rediss" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.Addresses, err = parseAddresses(o.Mode, append([]string{u.Host}, query[paramAddr]...)); err != nil {
		return Options{}, err
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		if o.Database, err = strconv.Atoi(path); err != nil {
			return Options{}, errURL
		}
	}
	if err := validateParameters(query); err != nil {
		return Options{}, err
	}
	return o, o.validate()
}

func modeOf(query url.Values) Mode {
	switch {
	case query.Has(paramMaster):
		return ModeSentinel
	case query.Has(paramAddr), query.Get(paramCluster) == "true":
		return ModeCluster
	default:
		return ModeStandalone
	}
}

// parseAddresses adds the default port to addresses without a port, and removes duplicates.
func parseAddresses(mode Mode, hosts []string) ([]string, error) {
	port := defaultPort
	if mode == ModeSentinel {
		port = defaultSentinelPort
	}
	var addresses []string
	seen := map[string]bool{}
	for _, host := range hosts {
		u := url.URL{Host: host}
		if u.Hostname() == "" || strings.ContainsAny(host, "@/") { // credentials belong to the URL, not to one address
			return nil, errURL
		}
		if address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)); !seen[address] {
			seen[address] = true
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

func validateParameters(query url.Values) error {
	for name := range query {
		switch name {
		case paramAddr, paramCluster, paramMaster, paramSentinelUsername, paramSentinelPassword:
		default:
			return errors.New("the Redis URL has an unknown parameter: it must be addr, cluster, master, sentinel_username or sentinel_password")
		}
	}
	if cluster := query.Get(paramCluster); cluster != "" && cluster != "true" && cluster != "false" {
		return errors.New("parameter cluster of the Redis URL must be true or false")
	}
	return nil
}

// validate checks everything except the timeout.
func (o *Options) validate() error {
	switch {
	case len(o.Addresses) == 0:
		return errors.New("no address")
	case o.Database < 0:
		return fmt.Errorf("database %d must not be negative", o.Database)
	case o.Mode == ModeStandalone && len(o.Addresses) > 1:
		return fmt.Errorf("mode Standalone requires one address, got %d", len(o.Addresses))
	case o.Mode == ModeCluster && o.Database != 0:
		return fmt.Errorf("database %d must be 0: Redis Cluster has only database 0", o.Database)
	case o.Mode == ModeSentinel && o.MasterName == "":
		return errors.New("mode Sentinel requires the name of the primary")
	case o.Mode != ModeSentinel && o.MasterName != "":
		return fmt.Errorf("mode %s does not use a name of the primary", o.Mode)
	case o.RenewCredentials < 0 || o.RenewCredentials > 0 && o.Credentials == nil:
		return fmt.Errorf("interval %v for the renewal of credentials requires Credentials, and must not be negative", o.RenewCredentials)
	case o.KeepConnections < 0 || o.KeepConnections > 0 && o.RenewCredentials == 0:
		return fmt.Errorf("time %v to keep connections requires RenewCredentials, and must not be negative", o.KeepConnections)
	case o.RootCAs != nil && o.TLS == nil:
		return errors.New("certificate authorities require TLS")
	case o.Mode != ModeStandalone && o.Mode != ModeCluster && o.Mode != ModeSentinel:
		return fmt.Errorf("mode %q must be Standalone, Sentinel or Cluster", o.Mode)
	default:
		return nil
	}
}
