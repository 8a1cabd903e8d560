package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/mutualtls"
)

// limiterAdminFlags configure the admin endpoint of weir limiter, which only the operator can call.
type limiterAdminFlags struct {
	listen      string
	operatorKey string
}

func (f *limiterAdminFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "admin-listen", "",
		"address to listen on for the admin endpoint, which only the operator can call: over TLS with the keys of --hash-key and\n"+
			"--admin-operator-key; empty disables it")
	flags.StringVar(&f.operatorKey, "admin-operator-key", "", "public key of the operator, which the operator sets")
}

// tlsConfig returns the TLS configuration of the endpoint, nil if it is disabled.
func (f *limiterAdminFlags) tlsConfig(counts *counters) (*tls.Config, error) {
	switch {
	case f.listen == "" && f.operatorKey == "":
		return nil, nil //nolint:nilnil // the flags disable the endpoint
	case f.listen == "":
		return nil, errors.New("--admin-operator-key requires --admin-listen, which is empty")
	case f.operatorKey == "":
		return nil, errors.New("--admin-listen requires --admin-operator-key: there is no admin endpoint without authentication")
	case counts.hashKey == nil:
		return nil, errors.New("--admin-listen requires --hash-key, from which the key of the endpoint is derived")
	}
	operator, err := mutualtls.ParsePublic(f.operatorKey)
	if err != nil {
		return nil, fmt.Errorf("--admin-operator-key: %w", err)
	}
	return mutualtls.Server(mutualtls.LimiterKey(counts.hashKey), operator)
}

// tasks returns a task that serves the endpoint, or nil if it is disabled. exempted are those of the admission endpoint.
func (f *limiterAdminFlags) tasks(ctx context.Context, p *process, counts *counters, exempted exempt.Lists) ([]func(context.Context) error, error) {
	config, err := f.tlsConfig(counts)
	if config == nil || err != nil {
		return nil, err
	}
	handler, err := adminHandler(p, counts, exempted)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("%w; set another address with --admin-listen", err)
	}
	return []func(context.Context) error{serveAdmin(p, admin.WithForwardedCaller(handler), tls.NewListener(listener, config))}, nil
}
