package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/bypasses"
)

// newBypasses returns an empty list, and registers its metric.
func newBypasses(registry prometheus.Registerer) *bypass.List {
	list := bypass.NewList(time.Now)
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_bypasses",
		Help: "Policies and identifiers with an active bypass.",
	}, func() float64 { return float64(list.Active().Len()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_blocks",
		Help: "Policies and identifiers with an active block, which denies their requests.",
	}, func() float64 { return float64(list.Active().Blocks()) }), prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "weir_bypass_exchange_failures_total",
		Help: "Exchanges of bypasses with the processes that share the counters that failed, at most two a second: Redis is unavailable, or the hash of " +
			"bypasses was too large. The log has the error.",
	}, func() float64 { return float64(list.Failures()) }))
	return list
}

// shareBypasses makes the process exchange bypasses with the others that share its counters.
func (p *process) shareBypasses(client *redisclient.Client) {
	p.bypassStore = bypasses.New(client, p.counterPrefix)
}

func (p *process) exchangeBypasses(ctx context.Context) { p.bypasses.Run(ctx, p.bypassStore, p.log) }
