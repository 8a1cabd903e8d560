package replay

import (
	"context"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/internal/replay/demand"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
)

// Result returns what the replay found out. Call it once, after Run has returned. It computes curves and suggestions, which can take seconds. If ctx has
// ended or ends, the curves that are left are those of a small sample, and there are no further suggestions.
func (r *Replay) Result(ctx context.Context) (*result.Result, error) {
	res := &result.Result{Version: result.Version, Total: r.after.total, Policies: []result.Policy{}}
	res.Input.Excluded, res.Input.Late = r.excluded.Load(), r.late
	for reason, n := range map[string]int64{"dry run": r.dryRuns.Load(), "exempt write to the Kubernetes API": r.exempt.Load()} {
		if n > 0 {
			res.Input.Skipped = append(res.Input.Skipped, result.Skipped{Reason: reason, Lines: n})
		}
	}
	if r.after.total.Requests > 0 {
		res.From, res.To = r.from.Time().UTC(), r.to.Time().UTC()
		res.SeriesStart = r.after.timeline.start()
	}
	res.BucketSeconds = r.after.timeline.seconds
	res.Series = cells(r.after.timeline.columns[0])
	metrics, err := r.after.metrics()
	if err != nil {
		return nil, err
	}
	for _, t := range r.after.order {
		p := t.result()
		t.table = nil // its memory is needed for what follows
		p.Series = cells(r.after.timeline.columns[t.column+1])
		for tier, n := range metrics.unlimited[p.Name] {
			p.Unlimited += n
			p.Matched += n
			for i := range p.Tiers {
				if p.Tiers[i].Name == tier {
					p.Tiers[i].Requests += n
				}
			}
		}
		p.MissingIdentifier, p.FallbackIdentifier = metrics.missing[p.Name], t.fallback
		if p.Matched == 0 {
			p.Silent = r.silence(t)
		}
		if err := r.tryLimits(ctx, t, &p); err != nil {
			return nil, err
		}
		res.Policies = append(res.Policies, p)
	}
	if r.compared != nil {
		res.Difference = r.compared.difference()
	}
	res.Notes = r.notes(metrics)
	if r.brief {
		res.Interrupted = true
		res.Notes = append(res.Notes, "The replay was interrupted: further suggestions are left out, and the curves that were left are those of a small sample.")
	}
	return res, nil
}

// cells returns cells that are no nil list, because a reader of JSON expects one.
func cells(list []result.Cell) []result.Cell { return append([]result.Cell{}, list...) }

// result returns the figures of a rule that need nothing else.
func (t *tally) result() result.Policy {
	rule := t.rule
	p := result.Policy{
		Name: rule.Policy, Axis: rule.Axis, Algorithm: string(rule.Algorithm), Limit: rule.Units, Burst: rule.Burst, WindowSeconds: rule.WindowSeconds,
		TiersOnly: rule.TiersOnly, Shadow: rule.Shadow, PerEndpoint: rule.PerEndpoint,
		Allowed: t.allowed, Denied: t.denied, Uncharged: t.uncharged, Matched: t.allowed + t.denied + t.uncharged,
		Identifiers: int64(t.table.Len()), DeniedIdentifiers: t.deniedIdentifiers,
		BusiestMinute: t.minute.span(), BusiestHour: t.hour.span(), HoursOfDay: t.hours[:], Use: t.use(),
	}
	if t.peak.capacity > 0 {
		p.PeakUse = &result.Use{Identifier: t.peak.identifier, Used: t.peak.used, Limit: t.peak.capacity, At: t.peak.at.Time().UTC()}
	}
	if t.denied > 0 {
		first, last := t.first.Time().UTC(), t.last.Time().UTC()
		p.FirstDenial, p.LastDenial = &first, &last
	}
	if len(rule.Tiers) > 0 {
		for i := range rule.Tiers {
			tier := &rule.Tiers[i]
			p.Tiers = append(p.Tiers, result.Tier{Name: tier.Name, Limit: tier.Units, Unlimited: tier.Unlimited, Cell: t.tiers[i]})
		}
		p.Tiers = append(p.Tiers, result.Tier{Limit: rule.Units, Unlimited: rule.TiersOnly, Cell: t.tiers[len(rule.Tiers)]})
	}
	for _, item := range t.top.sorted() {
		e := t.table.Entry(item.number)
		p.Top = append(p.Top, result.Identifier{
			Identifier: item.identifier, Cell: result.Cell{Requests: int64(e.Requests), Denied: int64(e.Denied)}, Peak: int64(e.Peak),
			FirstDenial: time.Unix(int64(e.FirstDenial), 0).UTC(),
		})
	}
	slices.SortStableFunc(p.Top, func(a, b result.Identifier) int {
		if a.Denied != b.Denied {
			return int(b.Denied - a.Denied)
		}
		return int(b.Requests - a.Requests)
	})
	return p
}

// use returns the distribution of identifiers by their peaks. Each bin ends at 1.33 times the end of the one before it.
func (t *tally) use() []result.Bin {
	counts := map[int]int64{}
	for number := range t.table.Len() {
		counts[binOf(int64(t.table.Entry(number).Peak))]++
	}
	bins := []result.Bin{}
	for bin := range maxBin + 1 {
		if counts[bin] > 0 {
			from, to := binBounds(bin)
			bins = append(bins, result.Bin{From: from, To: to, Identifiers: counts[bin]})
		}
	}
	return bins
}

// Bins: 8 in each power of ten. Small ones have one value, and bin 0 has the value 0.
const (
	binsPerTen = 8
	maxBin     = 10*binsPerTen + 1
)

// binEnd is the largest value of a bin.
func binEnd(bin int) int64 {
	if bin == 0 {
		return 0
	}
	return int64(math.Pow(10, float64(bin-1)/binsPerTen) + 1e-9)
}

func binBounds(bin int) (from, to int64) {
	if bin == 0 {
		return 0, 0
	}
	return binEnd(bin-1) + 1, binEnd(bin)
}

func binOf(value int64) int {
	bin := 0
	for bin < maxBin && binEnd(bin) < value {
		bin++
	}
	return bin
}

// briefSample is the number of requests for the curve of a policy after an interrupt, so that the user does not wait for it.
const briefSample = 1 << 16

// tryLimits sets the curve and the suggestions of a policy.
func (r *Replay) tryLimits(ctx context.Context, t *tally, p *result.Policy) error {
	if len(t.variants) > 0 {
		p.Curve = &result.Curve{SampledOneIn: 1, Requests: t.tiers[len(t.tiers)-1].Requests, Identifiers: t.variants[0].Identifiers}
		for _, v := range t.variants {
			p.Curve.Points = append(p.Curve.Points, result.CurvePoint{
				Limit: v.Limit().Units(), DeniedRequests: v.DeniedRequests, DeniedIdentifiers: v.DeniedIdentifiers,
			})
		}
	}
	if t.rule.TiersOnly || p.Matched == 0 {
		return nil
	}
	if r.brief = r.brief || ctx.Err() != nil; r.brief {
		t.sample.Shrink(briefSample)
	}
	d := t.sample.Demand()
	if p.Curve == nil {
		t.curve(d, p)
	}
	if r.options.Suggest == nil {
		return nil
	}
	for _, window := range r.options.Suggest.Windows {
		for _, algorithm := range limiter.Algorithms() {
			if r.brief = r.brief || ctx.Err() != nil; r.brief {
				return nil
			}
			if err := t.suggest(d, r.options.Suggest, window, algorithm, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// curve sets the curve of a policy for limits around its own, up to what the busiest identifier asks for.
func (t *tally) curve(d *demand.Demand, p *result.Policy) {
	p.Curve = &result.Curve{SampledOneIn: d.SampledOneIn, Requests: d.Requests, Identifiers: d.Identifiers, Points: []result.CurvePoint{}}
	var limits []limiter.Limit
	for _, units := range ladder(t.rule.Limit.Units(), d.PeakUnits(t.rule.Limit)) {
		if limit, err := demand.WithUnits(t.rule.Limit, units); err == nil { // else it is beyond the bounds of the algorithm
			limits = append(limits, limit.NoDelay())
		}
	}
	for i, denied := range d.TryAll(limits) {
		p.Curve.Points = append(p.Curve.Points, result.CurvePoint{
			Limit: limits[i].Units(), DeniedRequests: denied.Requests, DeniedIdentifiers: denied.Identifiers,
		})
	}
}

// maxPoints is the number of points of a curve, at most, besides that of the limit itself.
const maxPoints = 20

// ladder returns round limits from a tenth of own or of peak, whichever is lower, up to the first one that is not below peak, and own.
func ladder(own, peak int64) (limits []int64) {
	least, most := max(1, min(own, peak)/10), peak
	for ten := int64(1); ten <= limiter.MaxUnits && len(limits) < 60; ten *= 10 {
		for _, step := range []float64{1, 1.5, 2, 3, 4, 5, 7} {
			units := int64(step * float64(ten))
			if units >= least && (len(limits) == 0 || units > limits[len(limits)-1]) {
				limits = append(limits, units)
				if units >= most {
					ten = limiter.MaxUnits
					break
				}
			}
		}
	}
	for len(limits) > maxPoints { // every other one, from the end
		var kept []int64
		for i := len(limits) - 1; i >= 0; i -= 2 {
			kept = append(kept, limits[i])
		}
		slices.Reverse(kept)
		limits = kept
	}
	if own > 0 && own/1000 < peak && !slices.Contains(limits, own) {
		limits = append(limits, own)
		slices.Sort(limits)
	}
	return limits
}

// suggest adds the suggestion of a window and an algorithm for a policy, if there is one.
func (t *tally) suggest(d *demand.Demand, s *Suggest, window time.Duration, algorithm limiter.Algorithm, p *result.Policy) error {
	limitOf := func(units int64) (limiter.Limit, error) {
		limit, err := limiter.NewLimit(algorithm, units, window)
		if err != nil || !algorithm.Traits().Queues {
			return limit, err
		}
		return limit.WithBurst(units - 1) // without a queue, it would deny two requests at one instant
	}
	units, found := d.Least(s.Share, s.OfRequests, limitOf)
	if !found {
		return nil
	}
	limit, err := limitOf(units)
	if err != nil {
		return err
	}
	denied := d.Try(limit)
	counters := d.Counters(limit)
	bytes := algorithm.Traits().RedisBytes
	if algorithm.Traits().Log {
		bytes += logUnitBytes * min(units, d.Requests/max(d.Identifiers, 1)+1)
	}
	p.Suggestions = append(p.Suggestions, result.Suggestion{
		WindowSeconds: int64(window / time.Second), Algorithm: string(algorithm), Limit: units, Burst: queueOf(limit), SampledOneIn: d.SampledOneIn,
		Requests: d.Requests, Identifiers: d.Identifiers, DeniedRequests: denied.Requests, DeniedIdentifiers: denied.Identifiers,
		Counters: counters, RedisBytes: counters * bytes,
	})
	return nil
}

// queueOf is the length of the queue of a limit, 0 without a queue.
func queueOf(limit limiter.Limit) int64 {
	if limit.Traits().Queues {
		return limit.Burst()
	}
	return 0
}

// logUnitBytes is the memory of a request in a log in Redis, see docs/how-to/run-on-redis.md.
const logUnitBytes = 8

// counted has what only the metrics of the engine count.
type counted struct {
	unlimited map[string]map[string]int64 // by policy and tier
	missing   map[string]int64            // by policy
	leftOut   map[string]int64
	uncertain map[string]int64
}

// metrics returns what only the metrics of the engine count.
func (s *side) metrics() (counted, error) {
	c := counted{map[string]map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}}
	families, err := s.registry.Gather()
	if err != nil {
		return c, err
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n, policy := int64(m.GetCounter().GetValue()), labelOf(m, "policy")
			switch family.GetName() {
			case "weir_decisions_total":
				if labelOf(m, "result") == "unlimited" {
					if c.unlimited[policy] == nil {
						c.unlimited[policy] = map[string]int64{}
					}
					c.unlimited[policy][labelOf(m, "tier")] += n
				}
			case "weir_missing_identifier_total":
				c.missing[policy] += n
			case "weir_policies_left_out_total":
				c.leftOut[policy] += n
			case "weir_uncertain_matches_total":
				c.uncertain[policy] += n
			}
		}
	}
	return c, nil
}

func labelOf(m *dto.Metric, name string) string {
	for _, label := range m.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}
