package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-dev/weir/limiter/redisclient/endpoints"
)

// errNoClient is the error for a nil client.
var errNoClient = errors.New("the Redis client is nil")

// failoverAddress is the address that go-redis gives to a client that asks Sentinels.
const failoverAddress = "FailoverClient"

// From returns a Client for the Redis that another client uses, with that client's options: addresses, credentials, TLS, dialer, and size of the pool.
// It has connections of its own, and settings of its own for what a spend depends on, see [New]: go-redis repeats a command whose reply was lost three
// times, and each of them would count. Hooks are not taken over. A client that asks Sentinels does not have its options, so it is an error. The
// other client can be closed, unless its dialer or its credentials need it.
func From(client redis.UniversalClient, timeout time.Duration) (*Client, error) {
	if timeout <= 0 {
		return nil, fmt.Errorf("open Redis: timeout %v must be positive", timeout)
	}
	switch c := client.(type) {
	case nil:
		return nil, errNoClient
	case *redis.Client:
		if c == nil {
			return nil, errNoClient
		}
		if c.Options().Addr == failoverAddress {
			return nil, errors.New("a Redis client that asks Sentinels does not have the addresses of the Sentinels: " +
				"use a URL, for example redis://sentinel-1:26379?addr=sentinel-2:26379&master=mymaster")
		}
		return fromServer(c.Options(), timeout), nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, errNoClient
		}
		return fromCluster(c.Options(), timeout), nil
	default:
		return nil, fmt.Errorf("the Redis client is a %T: it must be a *redis.Client or a *redis.ClusterClient", client)
	}
}

func fromServer(of *redis.Options, timeout time.Duration) *Client {
	o, own := *of, Options{Timeout: timeout}
	o.Dialer = own.dialerOf(of.Dialer) // that of the client, or of go-redis with the TLSConfig
	o.Protocol, o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = 2, -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = own.dialTimeout(), timeout, timeout, timeout
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor, o.ClientSideCacheConfig, o.ClientSideCache = nil, nil, nil // they need protocol 3
	c := newClient(Options{
		Mode: ModeStandalone, Addresses: []string{o.Addr}, Database: o.DB, TLS: o.TLSConfig, Timeout: timeout,
		Username: o.Username, Password: o.Password, Credentials: o.CredentialsProviderContext,
	})
	if c.options.Credentials != nil {
		o.CredentialsProviderContext = c.credentials // whose errors have a kind
	}
	single := redis.NewClient(&o)
	single.AddHook(movedHook{c})
	c.current.Store(&pool{rdb: single, name: o.Addr})
	return c
}

func fromCluster(of *redis.ClusterOptions, timeout time.Duration) *Client {
	o, own := *of, Options{Timeout: timeout}
	dial := of.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{TLSConfig: of.TLSConfig, DialTimeout: own.dialTimeout()})
	}
	o.Dialer = own.dialerOf(dial)
	o.Protocol, o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = 2, -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = own.dialTimeout(), timeout, timeout, timeout
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PushNotificationProcessor = nil
	o.NewClient = nil                                                   // it can change the options of the nodes
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // a replica counts nothing
	o.DisableRoutingPolicies = true                                     // see New
	c := newClient(Options{
		Mode: ModeCluster, Addresses: o.Addrs, TLS: o.TLSConfig, Timeout: timeout,
		Username: o.Username, Password: o.Password, Credentials: o.CredentialsProviderContext,
	})
	if c.options.Credentials != nil {
		o.CredentialsProviderContext = c.credentials
	}
	c.current.Store(&pool{rdb: endpoints.ResolveUnknown(redis.NewClusterClient(&o))})
	return c
}

// dialerOf returns the dial function for go-redis that dials with dial, see [Options.dialer]. A dial that ignores its context, as that of go-redis does
// with TLS, goes on in the background until it ends.
func (o *Options) dialerOf(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, o.dialTimeout())
		defer cancel()
		dialed := make(chan dialOutcome, 1)
		go func() {
			conn, err := dial(ctx, network, address)
			dialed <- dialOutcome{conn, err}
		}()
		select {
		case d := <-dialed:
			if d.err != nil {
				return failedConn{wrappedError{d.err}}, nil
			}
			return o.late(d.conn), nil
		case <-ctx.Done():
			go func() {
				if d := <-dialed; d.err == nil {
					_ = d.conn.Close()
				}
			}()
			return failedConn{wrappedError{ctx.Err()}}, nil
		}
	}
}

type dialOutcome struct {
	conn net.Conn
	err  error
}

// late returns conn as a lateConn. go-redis takes a connection that has no descriptor for a closed one, unless it does not offer any.
func (o *Options) late(conn net.Conn) net.Conn {
	late := newLateConn(conn, o.Timeout)
	if _, ok := conn.(syscall.Conn); ok {
		return late
	}
	return struct{ net.Conn }{late}
}
