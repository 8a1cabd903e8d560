package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/server/envoy"
	"github.com/weir-dev/weir/limiter/socket"
)

// serviceStats are the statistics of the rate limit service, with the names that Envoy Gateway gives them in Prometheus.
type serviceStats struct {
	near                                      float64 // part of a limit
	total, overLimit, nearLimit, within, dark *prometheus.CounterVec
	requests                                  prometheus.Counter
	seconds                                   prometheus.Observer
	redisErrors, serviceErrors                prometheus.Counter
	loads, failedLoads                        prometheus.Counter
	gatherer                                  prometheus.Gatherer
	labels                                    map[[3]string]bool // that have series
}

// statRegistry is a prometheus.Registry.
type statRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// statPrefix begins the names of all statistics of the service.
const statPrefix = "ratelimit_service_"

func newServiceStats(registry statRegistry, near float64) *serviceStats {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: statPrefix + name, Help: help}, labels)
		registry.MustRegister(vec)
		return vec
	}
	ofLimit := func(name, help string) *prometheus.CounterVec {
		return counters("rate_limit_"+name, help+" (weir ratelimit; domain, and the first two levels of the descriptor).", "domain", "key1", "key2")
	}
	failures := counters("should_rate_limit_error", "Calls without a decision, by err_type: redis_error or service_error (weir ratelimit).", "err_type")
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: statPrefix + "response_time_seconds", Help: "Time from the start of a call to its decision, in seconds (weir ratelimit).",
		Buckets: prometheus.DefBuckets,
	}, []string{"grpc_method"})
	registry.MustRegister(seconds)
	return &serviceStats{
		near: near, gatherer: registry,
		total:       ofLimit("total_hits", "Hits under a limit"),
		overLimit:   ofLimit("over_limit", "Hits that were over their limit"),
		nearLimit:   ofLimit("near_limit", "Hits within a limit, above NEAR_LIMIT_RATIO of it"),
		within:      ofLimit("within_limit", "Hits that were within their limit"),
		dark:        ofLimit("shadow_mode", "Hits that were over a limit in shadow mode"),
		requests:    counters("total_requests", "Calls (weir ratelimit).", "grpc_method").WithLabelValues("ShouldRateLimit"),
		seconds:     seconds.WithLabelValues("ShouldRateLimit"),
		redisErrors: failures.WithLabelValues("redis_error"), serviceErrors: failures.WithLabelValues("service_error"),
		loads:       counters("config_load_success", "Configurations that were accepted (weir ratelimit).").WithLabelValues(),
		failedLoads: counters("config_load_error", "Configurations that were rejected, in whole or in part (weir ratelimit).").WithLabelValues(),
	}
}

func (s *serviceStats) loaded(err error) {
	if err != nil {
		s.failedLoads.Inc()
		return
	}
	s.loads.Inc()
}

// reference returns a limit with its counters.
func (s *serviceStats) reference(l ratelimitservice.Limit) *envoy.ReferenceLimit {
	labels := []string{l.Domain, l.Key1, l.Key2}
	total, overLimit, near := s.total.WithLabelValues(labels...), s.overLimit.WithLabelValues(labels...), s.nearLimit.WithLabelValues(labels...)
	within, dark := s.within.WithLabelValues(labels...), s.dark.WithLabelValues(labels...)
	return &envoy.ReferenceLimit{Name: l.Name, Zero: l.Zero, Count: func(hits int64, r *engine.Result) {
		total.Add(float64(hits))
		switch {
		case !r.Allowed && r.Rule.Shadow:
			dark.Add(float64(hits))
			fallthrough
		case !r.Allowed:
			overLimit.Add(float64(hits))
		default:
			within.Add(float64(hits))
			used := r.Decision.Limit - r.Remaining
			if above := used - int64(s.near*float64(r.Decision.Limit)); above > 0 {
				near.Add(float64(min(above, hits)))
			}
		}
	}}
}

// keep drops the series that none of the limits has. Otherwise each limit that ever was would keep its series.
func (s *serviceStats) keep(limits map[string]ratelimitservice.Limit) {
	kept := make(map[[3]string]bool, len(limits))
	for _, l := range limits {
		kept[[3]string{l.Domain, l.Key1, l.Key2}] = true
	}
	for labels := range s.labels {
		if kept[labels] {
			continue
		}
		for _, vec := range []*prometheus.CounterVec{s.total, s.overLimit, s.nearLimit, s.within, s.dark} {
			vec.DeleteLabelValues(labels[:]...)
		}
	}
	s.labels = kept
}

// observer observes the duration of calls here and with next.
func (s *serviceStats) observer(next envoy.Observer) envoy.Observer { return serviceObserver{s, next} }

type serviceObserver struct {
	stats *serviceStats
	next  envoy.Observer
}

// Observe implements envoy.Observer.
func (o serviceObserver) Observe(seconds float64) {
	o.stats.requests.Inc()
	o.stats.seconds.Observe(seconds)
	o.next.Observe(seconds)
}

// failures counts calls without a decision here and with next.
func (s *serviceStats) failures(next envoy.Failures) envoy.Failures { return serviceFailures{s, next} }

type serviceFailures struct {
	stats *serviceStats
	next  envoy.Failures
}

// Invalid implements envoy.Failures.
func (f serviceFailures) Invalid() {
	f.stats.requests.Inc()
	f.stats.serviceErrors.Inc()
	f.next.Invalid()
}

// Defect implements envoy.Failures.
func (f serviceFailures) Defect(reason string) { f.next.Defect(reason) }

// Unavailable implements envoy.Failures.
func (f serviceFailures) Unavailable(err error) {
	f.stats.requests.Inc()
	f.stats.redisErrors.Inc()
	f.next.Unavailable(err)
}

// serveDebug returns a task that serves /rlconfig and /stats.
func (s *rateLimitService) serveDebug(ctx context.Context) (func(context.Context) error, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.settings.Debug)
	if err != nil {
		return nil, fmt.Errorf("%w; set other values of DEBUG_HOST and DEBUG_PORT", err)
	}
	s.debug = listener.Addr()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		report := s.report
		s.mu.Unlock()
		for _, limit := range report {
			_, _ = fmt.Fprintln(w, limit)
		}
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.stats.write(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := socket.NewHTTP(mux, func() bool { return false }, s.process.log)
	server.Protocols.SetHTTP1(true)
	return func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(listener) }()
		select {
		case <-ctx.Done():
			return socket.StopHTTP(server)
		case err := <-failed:
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		}
	}, nil
}

// write writes the counters of the service, one in each line: "ratelimit.service.rate_limit.shop.tenant_acme.over_limit: 3".
func (s *serviceStats) write(w io.Writer) error {
	families, err := s.gatherer.Gather()
	if err != nil {
		return fmt.Errorf("gather the statistics: %w", err)
	}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), statPrefix)
		if !ok || family.GetType() != dto.MetricType_COUNTER {
			continue
		}
		for _, metric := range family.GetMetric() {
			path, stat := []string{"ratelimit", "service"}, name
			if suffix, ok := strings.CutPrefix(name, "rate_limit_"); ok {
				path, stat = append(path, "rate_limit"), suffix
			}
			for _, label := range metric.GetLabel() {
				if label.GetValue() != "" {
					path = append(path, label.GetValue())
				}
			}
			if _, err := fmt.Fprintf(w, "%s.%s: %.0f\n", strings.Join(path, "."), stat, metric.GetCounter().GetValue()); err != nil {
				return fmt.Errorf("write the statistics: %w", err)
			}
		}
	}
	return nil
}
