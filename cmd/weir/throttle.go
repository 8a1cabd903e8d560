package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/webhook/throttle"
)

// throttleFlags configure the admission endpoint.
type throttleFlags struct {
	listen           string
	certificate, key string
	namespace        string // of the limiter, not a flag; empty for weir serve
	additional       exempt.Lists
	maxRetryAfter    time.Duration
	warnPercent      int
}

// add uses the defaults of kubernetesThrottle in a Limiter.
func (f *throttleFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "throttle-listen", "",
		"address to listen on for the admission webhook of the Kubernetes API server, POST "+throttle.Path+" over TLS;\n"+
			"empty disables it")
	flags.StringVar(&f.certificate, "throttle-cert", "", "PEM file with the certificate for --throttle-listen; reloaded for each connection")
	flags.StringVar(&f.key, "throttle-key", "", "PEM file with the private key of --throttle-cert; reloaded for each connection")
	flags.StringSliceVar(&f.additional.Namespaces, "throttle-additional-exempt-namespaces", nil,
		"further namespaces in which writes are never limited; always exempt are kube-system, kube-node-lease, kube-public and\n"+
			"the namespace in --limiter")
	flags.StringSliceVar(&f.additional.Users, "throttle-additional-exempt-users", nil,
		"further users whose writes are never limited; always exempt are the components of the cluster")
	flags.StringSliceVar(&f.additional.Groups, "throttle-additional-exempt-groups", nil,
		"further groups whose members are never limited; always exempt are system:masters, kubeadm:cluster-admins, system:nodes,\n"+
			"system:bootstrappers and the service accounts of exempt namespaces")
	flags.DurationVar(&f.maxRetryAfter, "throttle-max-retry-after", 5*time.Second,
		"longest retry-after in a denial, which Kubernetes clients obey; a client that would have to wait longer fails immediately")
	flags.IntVar(&f.warnPercent, "throttle-warn-percent", 80,
		"usage of a limit, in percent, from which admitted writes get a warning; 0 disables warnings")
}

// throttleEndpoint is the admission endpoint.
type throttleEndpoint struct {
	terms    *throttle.Settings
	reloader *cli.CertReloader
}

// endpoint parses the flags. It returns nil if the endpoint is disabled.
func (f *throttleFlags) endpoint() (*throttleEndpoint, error) {
	switch {
	case f.listen == "" && f.certificate == "" && f.key == "":
		return nil, nil //nolint:nilnil // the flags disable the endpoint
	case f.listen == "":
		return nil, errors.New("--throttle-cert and --throttle-key require --throttle-listen, which is empty")
	case f.certificate == "" || f.key == "":
		return nil, errors.New("--throttle-listen requires --throttle-cert and --throttle-key: the API server calls webhooks only over TLS")
	}
	terms, err := throttle.NewSettings(throttle.Options{
		Exempt:        exempt.With(f.namespace, f.additional),
		MaxRetryAfter: f.maxRetryAfter, WarnPercent: f.warnPercent,
	})
	if err != nil {
		return nil, fmt.Errorf("--throttle-max-retry-after, --throttle-warn-percent: %w", err)
	}
	reloader, err := cli.NewCertReloader(f.certificate, f.key)
	if err != nil {
		return nil, fmt.Errorf("--throttle-cert, --throttle-key: %w", err)
	}
	return &throttleEndpoint{terms: terms, reloader: reloader}, nil
}

// validateRedisTimeout rejects a Redis timeout that is longer than the API server waits for a webhook.
func (f *throttleFlags) validateRedisTimeout(timeout time.Duration) error {
	if f.listen == "" || timeout <= throttle.MaxStoreTimeout {
		return nil
	}
	return fmt.Errorf("--redis-timeout %v is invalid with --throttle-listen: must be at most %v, because the API server waits no longer",
		timeout, throttle.MaxStoreTimeout)
}

// sheddingEngine counts the requests without a decision, and those that the store did not decide because this process was overloaded. The gate does not
// apply to writes: they are few, and a write without a decision is usually allowed.
type sheddingEngine struct {
	*engine.Engine

	shed     prometheus.Counter
	failures *server.Failures
}

// Check implements throttle.Engine.
func (e sheddingEngine) Check(ctx context.Context, c *engine.Check) (engine.Answer, error) {
	answer, err := e.Engine.Check(ctx, c)
	if errors.Is(err, limiter.ErrOverloaded) {
		e.shed.Inc()
	}
	if err != nil {
		e.failures.Unavailable(err)
	}
	return answer, err
}

// server returns the server for --throttle-listen.
func (d *throttleEndpoint) server(p *process, metrics *server.Metrics) *throttle.Server {
	shedding := sheddingEngine{p.engine, metrics.Shed("throttle"), metrics.Failures("throttle")}
	handler := throttle.NewHandler(shedding, d.terms, throttle.Telemetry{
		Seconds: metrics.Endpoint("throttle"), Requests: metrics.HTTPRequests("throttle"), Tracer: p.traces.Tracer,
	})
	return throttle.NewServer(handler, d.reloader.GetCertificate, p.drain, p.log)
}
