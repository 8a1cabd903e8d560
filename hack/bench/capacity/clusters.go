// Package capacity measures what a limiter with a Redis or a Redis Cluster can decide, and its latency under any load.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/hack/bench/rig"
	"github.com/weir-dev/weir/hack/bench/rlsload"
)

const (
	connections = 4
	callers     = 64
	identifiers = 100_000
)

// topology is a limiter with its own Redis.
type topology struct {
	name    string
	nodes   int // of the Redis Cluster; 0 is one server that is no cluster
	redis   *rig.Redis
	limiter *rig.Limiter
	client  *rlsload.Client
}

func topologies() []*topology {
	return []*topology{{name: "one Redis"}, {name: "Redis Cluster of 1 node", nodes: 1}, {name: "Redis Cluster of 3 nodes", nodes: 3}}
}

// start starts the processes. The caller must stop the topology, even after an error.
func (t *topology) start(ctx context.Context, binary, policies string) (err error) {
	if t.redis, err = rig.StartRedis(ctx, t.nodes); err != nil {
		return err
	}
	if t.limiter, err = rig.StartLimiter(ctx, binary, policies, t.redis.URL); err != nil {
		return err
	}
	t.client, err = rlsload.Dial(ctx, t.limiter.GRPC, connections)
	return err
}

func (t *topology) stop() error {
	var errs []error
	if t.client != nil {
		errs = append(errs, t.client.Close())
	}
	if t.limiter != nil {
		errs = append(errs, t.limiter.Stop())
	}
	if t.redis != nil {
		errs = append(errs, t.redis.Stop())
	}
	return errors.Join(errs...)
}

// sample is the result of one turn.
type sample struct {
	*rlsload.Result

	limiter, redis time.Duration // CPU time
}

func (s *sample) perDecision(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(s.Decided())
}

func (t *topology) turn(ctx context.Context, load rlsload.Load, length time.Duration) (s sample, err error) {
	var before sample
	if err := t.cpu(ctx, &before); err != nil {
		return sample{}, err
	}
	if s.Result, err = t.client.Run(ctx, load, length); err != nil {
		return sample{}, err
	}
	err = t.cpu(ctx, &s)
	s.limiter, s.redis = s.limiter-before.limiter, s.redis-before.redis
	return s, err
}

func (t *topology) cpu(ctx context.Context, s *sample) (err error) {
	if s.limiter, err = t.limiter.CPU(ctx); err != nil {
		return err
	}
	s.redis, err = t.redis.CPU(ctx)
	return err
}

// loads are the keys of the descriptors of a request.
func loads() map[int][]string {
	return map[int][]string{1: {"ip"}, 3: {"ip", "user", "path"}}
}

// clusterRow is the samples of a topology with a number of descriptors, one per round.
type clusterRow struct {
	topology    string
	descriptors int
	samples     []sample
}

// measureClusters gives each topology a turn with each load in each round.
func measureClusters(ctx context.Context, all []*topology, s Settings) ([]clusterRow, error) {
	var rows []clusterRow
	for _, descriptors := range []int{1, 3} {
		for _, t := range all {
			rows = append(rows, clusterRow{topology: t.name, descriptors: descriptors})
		}
	}
	for round := range s.Rounds + 1 {
		for turn := range rows {
			i := (turn + round) % len(rows)
			row, t := &rows[i], all[i%len(all)]
			length := s.Slice
			if round == 0 {
				length /= warmUp
			}
			load := rlsload.Load{Callers: callers, Message: rig.Message(identifiers, loads()[row.descriptors]...)}
			got, err := t.turn(ctx, load, length)
			if err != nil {
				return nil, fmt.Errorf("%s, %d descriptors: %w", row.topology, row.descriptors, err)
			}
			s.Progress("round %d of %d, %s, %d descriptors: %.0f/s", round, s.Rounds, row.topology, row.descriptors, got.PerSecond())
			if round > 0 {
				row.samples = append(row.samples, got)
			}
		}
	}
	return rows, nil
}

// warmUp divides the duration of the turns of a first round that is not counted.
const warmUp = 3

func (r *clusterRow) figures(of func(*sample) float64) []float64 {
	figures := make([]float64, len(r.samples))
	for i := range r.samples {
		figures[i] = of(&r.samples[i])
	}
	return figures
}

func clusterTable(rows []clusterRow) report.Table {
	perSecond := func(s *sample) float64 { return s.PerSecond() }
	cells := [][]string{{"RLS, 64 in flight", "descriptors", "decisions/s", "÷ one Redis", "limiter µs", "Redis µs", "p99 ms"}}
	for i := range rows {
		r := &rows[i]
		single := &rows[i-i%len(topologies())]
		cells = append(cells, []string{
			r.topology, strconv.Itoa(r.descriptors),
			report.Decimals(0, report.Median(r.figures(perSecond))),
			report.Times(report.MedianRatio(r.figures(perSecond), single.figures(perSecond))),
			report.Decimals(1, report.Median(r.figures(func(s *sample) float64 { return s.perDecision(s.limiter) }))),
			report.Decimals(1, report.Median(r.figures(func(s *sample) float64 { return s.perDecision(s.redis) }))),
			report.Decimals(1, report.Median(r.figures(func(s *sample) float64 { return milliseconds(s.Quantile(0.99)) }))),
		})
	}
	return report.Table{Title: "Decisions over Redis Cluster. µs: CPU time for a decision, of all Redis nodes together; medians over the rounds", Rows: cells}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
