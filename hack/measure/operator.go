package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-dev/weir/test/fixture"
)

// measureStart deletes all keys in Redis, restarts the operator, and measures how long it takes to publish.
func (e *environment) measureStart(ctx context.Context) error {
	flush := func() error {
		_, err := e.redis.Do(ctx, "FLUSHALL")
		return err
	}
	if err := e.stack.RestartOperator(ctx, e.options, flush); err != nil {
		return err
	}
	began := time.Now()
	if err := fixture.WaitHTTP(ctx, e.stack.OperatorURL+"/readyz", http.StatusOK); err != nil {
		return err
	}
	listed := time.Since(began)
	ctx, cancel := context.WithTimeout(ctx, e.timeout())
	defer cancel()
	err := fixture.Poll(ctx, requestInterval, func(ctx context.Context) error {
		exists, err := e.redis.Do(ctx, "EXISTS", "weir:rules:weir-system/default:current")
		if err != nil {
			return fixture.Permanent(err)
		}
		if fmt.Sprint(exists) != "1" {
			return errors.New("no rules in Redis")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait until the operator publishes: %w", err)
	}
	fmt.Printf("start of the operator: ready after %.2f s, rules published after %.2f s\n",
		listed.Seconds(), time.Since(began).Seconds())
	return e.waitReady(ctx)
}

// sample is a sample of the metrics of the operator.
type sample struct {
	at            time.Time
	cpu, resident float64            // seconds, bytes
	calls         map[string]float64 // calls of the API, by method
}

func (e *environment) takeSample(ctx context.Context) (sample, error) {
	m := sample{at: time.Now(), calls: map[string]float64{}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.stack.OperatorMetricsURL, nil)
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
		return m, fmt.Errorf("read the metrics of the operator: %w", err)
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

// settle is the time for the operator to finish the work of the last edit.
const settle = 10 * time.Second

// measureIdle measures the CPU, the memory and the API calls of the idle operator.
func (e *environment) measureIdle(ctx context.Context) error {
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	time.Sleep(settle)
	before, err := e.takeSample(ctx)
	if err != nil {
		return err
	}
	time.Sleep(e.idle)
	after, err := e.takeSample(ctx)
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
	fmt.Printf("idle for %v: %.0f MiB resident, %.2f %% of a core, API calls %v\n",
		took.Round(time.Second), after.resident/(1<<20), 100*(after.cpu-before.cpu)/took.Seconds(), calls)
	return nil
}
