package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-dev/weir/test/fixture"
)

// showStart takes everything from Redis and starts an operator that knows nothing.
func (w *world) showStart(ctx context.Context) error {
	flush := func() error {
		_, err := w.redis.Do(ctx, "FLUSHALL")
		return err
	}
	if err := w.stack.RestartOperator(ctx, w.how, flush); err != nil {
		return err
	}
	began := time.Now()
	if err := fixture.WaitHTTP(ctx, w.stack.OperatorURL+"/readyz", http.StatusOK); err != nil {
		return err
	}
	listed := time.Since(began)
	for {
		is, err := w.redis.Do(ctx, "EXISTS", "weir:rules:weir-system/default:current")
		if err != nil {
			return err
		}
		if fmt.Sprint(is) == "1" {
			break
		}
		if time.Since(began) > patience {
			return fmt.Errorf("nothing is published %v after the operator began", patience)
		}
		time.Sleep(beat)
	}
	fmt.Printf("an operator that starts: ready after %.2f s, compiled and published %.2f s after its start\n",
		listed.Seconds(), time.Since(began).Seconds())
	return w.untilReady(ctx)
}

// measured is what the operator tells of itself.
type measured struct {
	at            time.Time
	cpu, resident float64            // seconds, bytes
	calls         map[string]float64 // of the API, by method
}

func (w *world) measured(ctx context.Context) (measured, error) {
	m := measured{at: time.Now(), calls: map[string]float64{}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.stack.OperatorMetricsURL, nil)
	if err != nil {
		return m, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return m, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return m, fmt.Errorf("metrics of the operator: %w", err)
	}
	m.cpu = families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue()
	m.resident = families["process_resident_memory_bytes"].GetMetric()[0].GetGauge().GetValue()
	for _, calls := range families["rest_client_requests_total"].GetMetric() {
		m.calls[label(calls, "method")] += calls.GetCounter().GetValue()
	}
	return m, nil
}

func label(of *dto.Metric, name string) string {
	for _, l := range of.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// settle is what the operator has to finish what the last edit made it do.
const settle = 10 * time.Second

// showRest watches the operator while nothing happens.
func (w *world) showRest(ctx context.Context) error {
	if err := w.untilReady(ctx); err != nil {
		return err
	}
	time.Sleep(settle)
	before, err := w.measured(ctx)
	if err != nil {
		return err
	}
	time.Sleep(w.rest)
	after, err := w.measured(ctx)
	if err != nil {
		return err
	}
	took := after.at.Sub(before.at)
	calls := map[string]float64{}
	for method, n := range after.calls {
		if d := n - before.calls[method]; d > 0 {
			calls[method] = d
		}
	}
	fmt.Printf("at rest for %v: %.0f MiB resident, %.2f %% of a core, calls of the API %v\n",
		took.Round(time.Second), after.resident/(1<<20), 100*(after.cpu-before.cpu)/took.Seconds(), calls)
	return nil
}
