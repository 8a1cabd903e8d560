package capacity

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/hack/bench/rig"
	"github.com/weir-dev/weir/hack/bench/rlsload"
	"github.com/weir-dev/weir/limiter/wait"
)

// Curve is the latency under open loops of different rates.
type Curve struct {
	Capacity float64 // decisions a second of a closed loop with 64 requests in flight
	Points   []Point
}

// Point is a load of a [Curve].
type Point struct {
	Offered           float64 // percent of the capacity
	Decided, Rejected float64 // percent of the capacity; what is rejected was answered
	Unanswered        float64 // percent of the requests
	P50, P99          time.Duration
}

func measureCurve(ctx context.Context, t *topology, s Settings) (*Curve, error) {
	message := rig.Message(identifiers, "ip")
	var rates []float64
	for range 3 {
		got, err := t.client.Run(ctx, rlsload.Load{Callers: callers, Message: message}, s.Slice)
		if err != nil {
			return nil, err
		}
		rates = append(rates, got.PerSecond())
	}
	curve := &Curve{Capacity: report.Median(rates)}
	for _, percent := range s.offered {
		rate := curve.Capacity * percent / 100
		var samples []Point
		for range s.CurveTurns {
			got, err := t.client.Run(ctx, rlsload.Load{Rate: rate, Message: message}, s.CurveSlice)
			if err != nil {
				return nil, fmt.Errorf("%.0f a second: %w", rate, err)
			}
			share := func(n int) float64 { return 100 * float64(n) / got.Elapsed.Seconds() / curve.Capacity }
			samples = append(samples, Point{
				Offered: percent, Decided: share(got.Decided()), Rejected: share(got.Shed),
				Unanswered: 100 * float64(got.Failed) / (rate * got.Elapsed.Seconds()), P50: got.Quantile(0.5), P99: got.Quantile(0.99),
			})
			if !wait.Sleep(ctx, s.settle) {
				return nil, ctx.Err()
			}
		}
		p := medianPoint(samples)
		s.Progress("open loop, %.0f %% of %.0f/s: p50 %v, p99 %v, %.0f %% decided, %.0f %% rejected", percent, curve.Capacity, p.P50, p.P99, p.Decided, p.Rejected)
		curve.Points = append(curve.Points, p)
	}
	return curve, nil
}

// medianPoint returns the median of each figure.
func medianPoint(points []Point) Point {
	median := func(of func(Point) float64) float64 {
		figures := make([]float64, len(points))
		for i, p := range points {
			figures[i] = of(p)
		}
		return report.Median(figures)
	}
	return Point{
		Offered: points[0].Offered, Decided: median(func(p Point) float64 { return p.Decided }), Rejected: median(func(p Point) float64 { return p.Rejected }),
		Unanswered: median(func(p Point) float64 { return p.Unanswered }),
		P50:        time.Duration(median(func(p Point) float64 { return float64(p.P50) })),
		P99:        time.Duration(median(func(p Point) float64 { return float64(p.P99) })),
	}
}

func (c *Curve) table() report.Table {
	rows := [][]string{{"offered, % of the capacity", "decided, %", "rejected, %", "unanswered, % of requests", "p50 ms", "p99 ms"}}
	for _, p := range c.Points {
		rows = append(rows, []string{
			report.Decimals(0, p.Offered), report.Decimals(0, p.Decided), report.Decimals(0, p.Rejected), report.Decimals(1, p.Unanswered),
			report.Decimals(2, milliseconds(p.P50)), report.Decimals(2, milliseconds(p.P99)),
		})
	}
	return report.Table{
		Title: fmt.Sprintf("Open loop: latency from the time when a request was due, of the requests that are decided. "+
			"The capacity is %.0f decisions a second, with 64 requests in flight", c.Capacity),
		Rows: rows,
	}
}
