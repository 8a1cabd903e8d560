package replay

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// batches is a Source of records that are repeated, each batch a second after the one before it.
type batches struct {
	records []accesslog.Record
	left    int
	at      time.Time
}

func (b *batches) Next(context.Context) ([]accesslog.Record, error) {
	if b.left == 0 {
		return nil, io.EOF
	}
	b.left--
	b.at = b.at.Add(time.Second)
	batch := append([]accesslog.Record(nil), b.records...)
	for i := range batch {
		batch[i].Start = b.at
	}
	return batch, nil
}

// BenchmarkRun measures a request that three policies match, without reading it.
func BenchmarkRun(b *testing.B) {
	source := &batches{at: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), left: b.N/1000 + 1}
	for i := range 1000 {
		r := rules.Request{Domain: "shop", Method: "GET", Path: "/v1/items", ClientIP: netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})}
		source.records = append(source.records, accesslog.Record{Request: r, Status: 200})
	}
	var set rules.Set
	for i, algorithm := range []limiter.Algorithm{limiter.SlidingWindowCounter, limiter.FixedWindow, limiter.TokenBucket} {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: fmt.Sprint("shop/", i), Domain: "shop", Axis: "IP", Identifier: rules.Identifier{From: rules.FromClientIP},
			Algorithm: algorithm, Units: 100, WindowSeconds: 60,
		})
	}
	r, err := New(Options{Policies: set})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := r.Run(b.Context(), source); err != nil {
		b.Fatal(err)
	}
}
