package admin_test

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	chain "github.com/weir-dev/weir/limiter/store"
)

// layeredEngine returns an Engine without rules, on layers above counters.
func layeredEngine(counters limiter.Store, layers chain.Layers) *engine.Engine {
	registry := prometheus.NewRegistry()
	top := chain.New(counters, layers, registry)
	return engine.New(top, engine.SourceMemory, engine.NewMetrics(registry), engine.WithLayers(top))
}
