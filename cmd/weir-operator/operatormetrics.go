package main

import (
	"crypto/tls"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// operatorMetricsFlags configure the metrics of the operator.
type operatorMetricsFlags struct {
	address string
	secure  bool
}

func (f *operatorMetricsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "metrics-bind-address", ":9090", "address to listen on for /metrics; 0 disables it")
	flags.BoolVar(&f.secure, "metrics-secure", false,
		"serve /metrics over TLS with a self-signed certificate, and only to clients with a Kubernetes token whose user can get\n"+
			"the non-resource URL /metrics")
}

func (f *operatorMetricsFlags) options() metricsserver.Options {
	options := metricsserver.Options{BindAddress: f.address}
	if f.secure {
		options.SecureServing, options.FilterProvider = true, filters.WithAuthenticationAndAuthorization
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }}
	}
	return options
}
