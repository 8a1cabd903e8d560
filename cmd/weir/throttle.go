package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/webhook/throttle"
)

// throttleFlags are about the endpoint for API servers.
type throttleFlags struct {
	listen           string
	certificate, key string
	exemptNamespaces []string
	exemptUsers      []string
	exemptGroups     []string
	maxRetryAfter    time.Duration
	warnPercent      int
}

// add has the defaults of a Limiter's kubernetesThrottle.
func (f *throttleFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "throttle-listen", "", "address for the API servers of Kubernetes, POST "+throttle.Path+" over TLS (default: none)")
	flags.StringVar(&f.certificate, "throttle-cert", "", "PEM file of the certificate for --throttle-listen; read again for every connection")
	flags.StringVar(&f.key, "throttle-key", "", "PEM file of its key")
	flags.StringSliceVar(&f.exemptNamespaces, "throttle-exempt-namespaces",
		[]string{"kube-system", "kube-node-lease", "kube-public", "weir-system"}, "namespaces in which no write is limited")
	flags.StringSliceVar(&f.exemptUsers, "throttle-exempt-users",
		[]string{"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"},
		"users whose writes are never limited")
	flags.StringSliceVar(&f.exemptGroups, "throttle-exempt-groups",
		[]string{"system:masters", "kubeadm:cluster-admins", "system:nodes", "system:serviceaccounts:kube-system", "system:serviceaccounts:weir-system"},
		"groups whose members' writes are never limited")
	flags.DurationVar(&f.maxRetryAfter, "throttle-max-retry-after", 5*time.Second,
		"longest wait that a denied client is told, which clients obey; whoever would have to wait longer fails at once")
	flags.IntVar(&f.warnPercent, "throttle-warn-percent", 80, "percent of a limit from which on writes that pass come with a warning; 0 for none")
}

// throttleEndpoint is how API servers come in.
type throttleEndpoint struct {
	terms *throttle.Settings
	pair  *keyPair
}

// endpoint reads the flags; nil if there is to be none.
func (f *throttleFlags) endpoint() (*throttleEndpoint, error) {
	switch {
	case f.listen == "" && f.certificate == "" && f.key == "":
		return nil, nil //nolint:nilnil // no endpoint is what was asked for
	case f.listen == "":
		return nil, errors.New("--throttle-cert and --throttle-key are for --throttle-listen, which is empty")
	case f.certificate == "" || f.key == "":
		return nil, errors.New("--throttle-listen needs --throttle-cert and --throttle-key: API servers ask over TLS only")
	}
	terms, err := throttle.NewSettings(throttle.Options{
		ExemptNamespaces: f.exemptNamespaces, ExemptUsers: f.exemptUsers, ExemptGroups: f.exemptGroups,
		MaxRetryAfter: f.maxRetryAfter, WarnPercent: f.warnPercent,
	})
	if err != nil {
		return nil, fmt.Errorf("--throttle-max-retry-after, --throttle-warn-percent: %w", err)
	}
	pair, err := openKeyPair(f.certificate, f.key)
	if err != nil {
		return nil, fmt.Errorf("--throttle-cert, --throttle-key: %w", err)
	}
	return &throttleEndpoint{terms: terms, pair: pair}, nil
}

// waits says whether API servers can wait for a Redis for so long.
func (f *throttleFlags) waits(timeout time.Duration) error {
	if f.listen == "" || timeout <= throttle.MaxStoreTimeout {
		return nil
	}
	return fmt.Errorf("--redis-timeout %v is more than the %v that API servers, which --throttle-listen is for, can wait", timeout, throttle.MaxStoreTimeout)
}

// server is the socket of --throttle-listen.
func (d *throttleEndpoint) server(p *process, metrics *server.Metrics) *throttle.Server {
	return throttle.NewServer(throttle.NewHandler(p.engine, d.terms, metrics.Endpoint("throttle")), d.pair.show, p.drain, p.log)
}
