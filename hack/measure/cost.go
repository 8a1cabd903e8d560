package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	costEdits    = 20
	editInterval = time.Second
)

// usage is what the programs have used: CPU in seconds, and bytes that Redis has received and sent.
type usage struct {
	at                 time.Time
	operator, limiters float64
	received, sent     float64
}

func (u usage) minus(v usage) usage {
	return usage{
		operator: u.operator - v.operator, limiters: u.limiters - v.limiters, received: u.received - v.received, sent: u.sent - v.sent,
	}
}

func (u usage) times(f float64) usage {
	return usage{operator: u.operator * f, limiters: u.limiters * f, received: u.received * f, sent: u.sent * f}
}

// measureCost measures what an edit of one policy costs, without the requests of timeEdits. It subtracts what the programs use without edits.
func (e *environment) measureCost(ctx context.Context) error {
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	time.Sleep(settle)
	began, err := e.usage(ctx)
	if err != nil {
		return err
	}
	time.Sleep(costEdits * editInterval)
	quiet, err := e.usage(ctx)
	if err != nil {
		return err
	}
	last, limit := 0, int64(0)
	for n := range costEdits {
		last, limit = (n*7+3)%e.policies, int64(2*initialLimit+n+1)
		if err := e.edit(ctx, last, limit); err != nil {
			return err
		}
		time.Sleep(editInterval)
	}
	edited, err := e.usage(ctx)
	if err != nil {
		return err
	}
	if err := e.waitEnforced(ctx, last, limit); err != nil {
		return err
	}
	ratio := edited.at.Sub(quiet.at).Seconds() / quiet.at.Sub(began.at).Seconds()
	each := edited.minus(quiet).minus(quiet.minus(began).times(ratio)).times(1. / costEdits)
	replicas := float64(len(e.stack.Replicas))
	fmt.Printf("an edit costs, with %d edits each %v: operator %.1f ms of CPU, each limiter %.1f ms, "+
		"Redis receives %.1f KiB, and sends %.1f KiB for each limiter\n",
		costEdits, editInterval, 1000*each.operator, 1000*each.limiters/replicas, each.received/1024, each.sent/1024/replicas)
	return nil
}

func (e *environment) usage(ctx context.Context) (u usage, err error) {
	if u.operator, err = cpuOf(ctx, e.stack.OperatorMetricsURL); err != nil {
		return u, err
	}
	for _, replica := range e.stack.Replicas {
		used, err := cpuOf(ctx, replica.OpsURL+"/metrics")
		if err != nil {
			return u, err
		}
		u.limiters += used
	}
	stats, err := e.redis.Do(ctx, "INFO", "stats")
	if err != nil {
		return u, err
	}
	u.received, err = statistic(fmt.Sprint(stats), "total_net_input_bytes")
	if err != nil {
		return u, err
	}
	u.sent, err = statistic(fmt.Sprint(stats), "total_net_output_bytes")
	u.at = time.Now()
	return u, err
}

// statistic returns a number of INFO.
func statistic(info, name string) (float64, error) {
	_, rest, found := strings.Cut(info, name+":")
	if !found {
		return 0, fmt.Errorf("INFO has no %s", name)
	}
	text, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseFloat(text, 64)
}

// cpuOf returns the CPU time that a program has used, in seconds.
func cpuOf(ctx context.Context, url string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of %s: %w", url, err)
	}
	family := families["process_cpu_seconds_total"]
	if family == nil {
		return 0, errors.New(url + " has no process_cpu_seconds_total")
	}
	return family.GetMetric()[0].GetCounter().GetValue(), nil
}
