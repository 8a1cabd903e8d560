package engine_test

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/store"
)

// newLayered returns an Engine without rules, on layers above counters.
func newLayered(
	counters limiter.Store, source engine.Source, registry prometheus.Registerer, layers store.Layers, options ...engine.Option,
) (*engine.Engine, *store.Chain) {
	chain := store.New(counters, layers, registry)
	return engine.New(chain, source, engine.NewMetrics(registry), append(options, engine.WithLayers(chain))...), chain
}
