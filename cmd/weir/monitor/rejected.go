package monitor

import "github.com/prometheus/client_golang/prometheus"

// RegisterRejected registers the metric of the rule set that the limiter rejects. The function returns why, or nil.
func RegisterRejected(registry prometheus.Registerer, rejected func() error) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_rules_rejected",
		Help: "1 if the limiter rejects the published rule set, for example because a shard of it is damaged or missing, and enforces the previous one. " +
			"Otherwise 0. The log, and the status of the Limiter, have the reason.",
	}, func() float64 {
		if rejected() != nil {
			return 1
		}
		return 0
	}))
}
