package ruleset

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter"
)

// Config configures a Reconciler.
type Config struct {
	// Client reads Limiters, policies and namespaces from a cache, and writes statuses and snapshots.
	Client client.Client
	// Uncached reads snapshots: a cache would hold all ConfigMaps of the cluster.
	Uncached client.Reader
	// Policies lists the policies that are not being deleted. If it is nil, the Client lists them. SetupWithManager sets it.
	Policies selection.PolicyLister
	// Gateways reads the objects that policies can target. If it is nil, the targets of policies are unknown.
	Gateways Gateways
	// Open opens the Redis of a Limiter. It does not connect.
	Open func(*v1alpha1.Limiter) (publish.Store, error)
	// Confirm returns an error if this operator is not the leader any more. It may be nil.
	Confirm func(context.Context) error
	// KeyPrefix is the prefix of the Redis keys of counters, for example "weir:".
	KeyPrefix string
	// HashKey is the master key from which the hash keys of Limiters are derived. If it is nil, a new one is used, with which no limiter
	// accepts rules that count by API key.
	HashKey *limiter.HashKey
	// Resync is how often Redis and the snapshot are verified when nothing changes.
	Resync time.Duration
	// Clock returns the current time.
	Clock func() time.Time
	// Metrics registers the metrics of the controller.
	Metrics prometheus.Registerer
}

// Gateways reads the objects that policies can target.
type Gateways interface {
	selection.GatewayReader
	// Changed returns a channel that receives a value after the objects have changed.
	Changed() <-chan struct{}
}

// reader reads what rule sets are compiled from.
func (c Config) reader() selection.Reader {
	return selection.Reader{Reader: c.Client, Policies: c.Policies, Gateways: c.gateways()}
}

// gateways returns an interface that is nil without Gateways.
func (c Config) gateways() selection.GatewayReader {
	if c.Gateways == nil {
		return nil
	}
	return c.Gateways
}
