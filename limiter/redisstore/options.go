package redisstore

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

// Mode is how Redis is run.
type Mode string

// The modes.
const (
	ModeStandalone Mode = "Standalone" // one server, or something that looks like one
	ModeSentinel   Mode = "Sentinel"   // a primary that Sentinels name, and replace when it dies
	ModeCluster    Mode = "Cluster"    // Redis Cluster
)

// Options say where Redis is and how to get in.
type Options struct {
	Mode Mode
	// Addresses, as host:port, are the server's; or some of the Sentinels', or of the nodes of the cluster: enough that
	// one of them is always alive. The others are found through it.
	Addresses []string
	// MasterName is what the Sentinels call the primary.
	MasterName string
	// Database, 0 and up; a cluster has only 0.
	Database int
	// Username and Password for the servers. A password alone is that of the default user.
	Username, Password string
	// Credentials, if not nil, are asked for in the place of Username and Password for every connection that is made to a
	// server, so that new ones need no restart. Connections stay when they change: Redis knows who they are.
	Credentials func(context.Context) (username, password string, err error)
	// SentinelUsername and SentinelPassword for the Sentinels themselves, which may want none or others.
	SentinelUsername, SentinelPassword string
	// TLS to speak it, with servers and Sentinels alike; nil to speak plainly.
	TLS *tls.Config
	// Authorities, if not nil, are asked for in the place of TLS.RootCAs for every connection that is made; nil are the system's.
	Authorities func() (*x509.CertPool, error)
	// Locate, if not nil, says where an address, host:port, is to be dialled: for one whose names mean something else here. With TLS
	// the server must be vouched for under the name that it had.
	Locate func(address string) string
	// Timeout for one command; positive.
	Timeout time.Duration
}

// The parameters of a URL.
const (
	paramAddr             = "addr"    // another address of the cluster or of a Sentinel; may be repeated
	paramCluster          = "cluster" // "true": a cluster, even if only one address is known
	paramMaster           = "master"  // the addresses are Sentinels', and this is what they call the primary
	paramSentinelUsername = "sentinel_username"
	paramSentinelPassword = "sentinel_password"
)

// The ports where a URL names none.
const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"
)

// errURL tells nothing of the URL, for its password. So do not the errors of URL parsers, which quote what they were given.
var errURL = errors.New("not a URL of the form redis://[user:password@]host:port[/database] " +
	"(percent-encode special characters of the password)")

// ParseURL reads Options, but for the timeout, from one of
//
//	redis://user:password@host:6379/0                         one server
//	redis://user:password@a:6379?addr=b:6379&addr=c:6379      a cluster, of which three nodes are known
//	redis://user:password@a:6379?cluster=true                 a cluster, of which one address is known
//	redis://user:password@a:26379/0?addr=b:26379&master=name  the primary that the Sentinels a and b call name
//
// rediss:// speaks TLS. Sentinels that want credentials get those in sentinel_username and sentinel_password. No error
// holds any part of the URL, for its passwords.
func ParseURL(raw string) (Options, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Fragment != "" { // which began in a password
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
	if o.Addresses, err = addressesOf(o.Mode, append([]string{u.Host}, query[paramAddr]...)); err != nil {
		return Options{}, err
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		if o.Database, err = strconv.Atoi(path); err != nil {
			return Options{}, errURL
		}
	}
	if err := knownParameters(query); err != nil {
		return Options{}, err
	}
	return o, o.check()
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

// addressesOf adds the default port to the addresses that have none, and leaves out what repeats.
func addressesOf(mode Mode, hosts []string) ([]string, error) {
	usual := defaultPort
	if mode == ModeSentinel {
		usual = defaultSentinelPort
	}
	var addresses []string
	seen := map[string]bool{}
	for _, host := range hosts {
		u := url.URL{Host: host}
		if u.Hostname() == "" || strings.ContainsAny(host, "@/") { // credentials are not for single addresses
			return nil, errURL
		}
		if address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), usual)); !seen[address] {
			seen[address] = true
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

func knownParameters(query url.Values) error {
	for name := range query {
		switch name {
		case paramAddr, paramCluster, paramMaster, paramSentinelUsername, paramSentinelPassword:
		default:
			return errors.New("the URL has a parameter that is none of addr, cluster, master, sentinel_username and sentinel_password")
		}
	}
	if cluster := query.Get(paramCluster); cluster != "" && cluster != "true" && cluster != "false" {
		return errors.New("parameter cluster of the URL is neither true nor false")
	}
	return nil
}

// check says what is wrong with o, the timeout aside.
func (o *Options) check() error {
	switch {
	case len(o.Addresses) == 0:
		return errors.New("no address")
	case o.Database < 0:
		return fmt.Errorf("database %d", o.Database)
	case o.Mode == ModeStandalone && len(o.Addresses) > 1:
		return fmt.Errorf("%d addresses of one server", len(o.Addresses))
	case o.Mode == ModeCluster && o.Database != 0:
		return fmt.Errorf("database %d of a cluster, which has only 0", o.Database)
	case o.Mode == ModeSentinel && o.MasterName == "":
		return errors.New("no name of the primary that Sentinels are to be asked for")
	case o.Mode != ModeSentinel && o.MasterName != "":
		return fmt.Errorf("a name of the primary, which mode %s has not", o.Mode)
	case o.Authorities != nil && o.TLS == nil:
		return errors.New("authorities without TLS")
	case o.Mode != ModeStandalone && o.Mode != ModeCluster && o.Mode != ModeSentinel:
		return fmt.Errorf("mode %q is not Standalone, Sentinel or Cluster", o.Mode)
	default:
		return nil
	}
}
