package xds

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of a Client.
type Metrics struct {
	connected          prometheus.Gauge
	accepted, rejected prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	connected := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_xds_connected",
		Help: "Whether weir ratelimit receives its configuration: 1 while it is connected to the xDS server and has received a response, otherwise 0. " +
			"The configuration that was accepted last stays active.",
	})
	responses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_xds_responses_total",
		Help: "Configurations that weir ratelimit received from its xDS server, by result: accepted or rejected. Of a rejected one, the valid domains " +
			"are active, and the others keep their previous limits.",
	}, []string{"result"})
	registry.MustRegister(connected, responses)
	return &Metrics{connected: connected, accepted: responses.WithLabelValues("accepted"), rejected: responses.WithLabelValues("rejected")}
}
