package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsDenied reports whether a limit denied the write.
func IsDenied(err error) bool { return apierrors.IsTooManyRequests(err) }

// WebhookCalls returns how often API servers have called the running limiters.
func (w *World) WebhookCalls(ctx context.Context) (int, error) {
	return w.sum(ctx, "weir_decision_duration_seconds", map[string]string{"endpoint": "throttle"})
}

// Decisions returns how many decisions with the result the running limiters made for a ClusterRateLimitPolicy, without dry runs.
func (w *World) Decisions(ctx context.Context, policy, result string) (int, error) {
	return w.sum(ctx, "weir_decisions_total", map[string]string{"policy": "_cluster/" + policy, "result": result})
}

// OperatorMetrics returns the address, as host:port, at which the operator serves its metrics.
func (w *World) OperatorMetrics() string { return w.metrics }

// LimiterMetrics returns the addresses, as host:port, at which the running limiters serve their metrics.
func (w *World) LimiterMetrics() []string {
	var addresses []string
	for _, l := range w.limiters {
		addresses = append(addresses, strings.TrimPrefix(l.ops, "http://"))
	}
	return addresses
}

// CheckURLs returns the URLs of the HTTP check of the running limiters.
func (w *World) CheckURLs() []string {
	var urls []string
	for _, l := range w.limiters {
		urls = append(urls, l.check)
	}
	return urls
}

func (w *World) sum(ctx context.Context, name string, labels map[string]string) (int, error) {
	total := 0.0
	for _, l := range w.limiters {
		families, err := scrape(ctx, l.ops+"/metrics")
		if err != nil {
			return 0, fmt.Errorf("count %s: %w", name, err)
		}
		for _, m := range families[name].GetMetric() {
			if hasLabels(m, labels) {
				total += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return int(total), nil
}

func hasLabels(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, pair := range m.GetLabel() {
		if value, wanted := labels[pair.GetName()]; wanted && value == pair.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}
