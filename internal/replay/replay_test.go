package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// start is when the requests of the tests begin.
var start = time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)

// list is a Source of records, in batches of random sizes.
type list struct {
	records []accesslog.Record
	err     error // at the end, in place of io.EOF
}

func (l *list) Next(context.Context) ([]accesslog.Record, error) {
	if len(l.records) == 0 {
		return nil, cmp.Or(l.err, io.EOF)
	}
	n := min(len(l.records), 1+rand.IntN(2000))
	batch := slices.Clone(l.records[:n])
	l.records = l.records[n:]
	return batch, nil
}

func record(after time.Duration, client int, headers ...string) accesslog.Record {
	r := accesslog.Record{Start: start.Add(after), Status: 200, Request: rules.Request{
		Method: "GET", Path: "/v1/items", ClientIP: netip.AddrFrom4([4]byte{192, 0, byte(client >> 8), byte(client)}),
	}}
	for i := 0; i < len(headers); i += 2 {
		if r.Request.Headers == nil {
			r.Request.Headers = map[string]string{}
		}
		r.Request.Headers[headers[i]] = headers[i+1]
	}
	return r
}

func rule(name string, change ...func(*rules.Rule)) rules.Rule {
	r := rules.Rule{
		Policy: "shop/" + name, Domain: "shop", Axis: "IP", Identifier: rules.Identifier{From: rules.FromClientIP},
		Algorithm: limiter.FixedWindow, Units: 5, WindowSeconds: 60,
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func setOf(list ...rules.Rule) rules.Set { return rules.Set{Rules: list} }

// run replays records, and returns the result.
func run(t *testing.T, o Options, records ...accesslog.Record) *result.Result {
	t.Helper()
	o.Domain = cmp.Or(o.Domain, "shop")
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), &list{records: slices.Clone(records)}); err != nil {
		t.Fatal(err)
	}
	found, err := r.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A user who has pressed Ctrl-C does not wait for suggestions, and for curves of millions of requests.
func TestResult_IsBriefAfterAnInterrupt(t *testing.T) {
	var records []accesslog.Record
	for i := range 200_000 {
		records = append(records, record(time.Duration(i)*time.Millisecond, i%2000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"complete": t.Context(), "brief": ctx} {
		r, err := New(Options{
			Policies: setOf(rule("a"), rule("b")), Domain: "shop", Suggest: &Suggest{Share: 0.01, Windows: []time.Duration{time.Minute}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context(), &list{records: slices.Clone(records)}); err != nil {
			t.Fatal(err)
		}
		found, err := r.Result(ctx)
		if err != nil {
			t.Fatal(err)
		}
		isBrief := name == "brief"
		if found.Total.Requests != 200_000 || found.Interrupted != isBrief || slices.ContainsFunc(found.Notes, func(n string) bool {
			return strings.HasPrefix(n, "The replay was interrupted")
		}) != isBrief {
			t.Errorf("%s: %+v, interrupted: %t, %q", name, found.Total, found.Interrupted, found.Notes)
		}
		for _, p := range found.Policies {
			if (p.Curve.SampledOneIn > 1) != isBrief || p.Curve.Requests != p.Curve.Identifiers*100 || isBrief && p.Curve.Requests > 1<<16 || (len(p.Suggestions) == 0) != isBrief {
				t.Errorf("%s: %s: %d of one in %d, %d suggestions", name, p.Name, p.Curve.Requests, p.Curve.SampledOneIn, len(p.Suggestions))
			}
		}
	}
}

// everything has a rule for each algorithm, tiers, shadow policies, debts, costs, several rates, missing identifiers, paths that are counted, and limits of 0.
func everything() rules.Set {
	header := rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}
	list := []rules.Rule{
		rule("debt", func(r *rules.Rule) {
			r.Debt, r.Cost, r.Units = true, &rules.Cost{Header: "x-cost"}, 10
		}),
		rule("deny-missing", func(r *rules.Rule) {
			r.Identifier, r.OnMissing = rules.Identifier{From: rules.FromHeader, Name: "x-user-id"}, rules.DenyMissing
		}),
		rule("endpoint", func(r *rules.Rule) { r.PerEndpoint, r.Units, r.WindowSeconds = true, 3, 10 }),
		rule("rates:1m", func(r *rules.Rule) { r.Rate, r.Identifier = "1m", header }),
		rule("rates:1h", func(r *rules.Rule) { r.Rate, r.Identifier, r.Units, r.WindowSeconds = "1h", header, 60, 3600 }),
		rule("shadow", func(r *rules.Rule) { r.Shadow, r.Units = true, 2 }),
		rule("tiers", func(r *rules.Rule) {
			r.Identifier, r.Units = header, 6
			r.Tiers = []rules.Tier{
				{Name: "blocked", When: rules.When{Identifiers: []string{"t3"}}},
				{Name: "paid", When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: "paid"}}, Units: 20},
				{Name: "free", When: rules.When{CIDRs: []string{"192.0.0.0/26"}}, Unlimited: true},
			}
		}),
	}
	for _, algorithm := range limiter.Algorithms() {
		list = append(list, rule(strings.ToLower(string(algorithm)), func(r *rules.Rule) {
			r.Algorithm, r.Units, r.WindowSeconds = algorithm, 5, 60
			if algorithm.Traits().Queues {
				r.Burst = 3
			}
		}))
	}
	for i := range list { // each request has several policies, and none of them denies so much that others see nothing
		if !list[i].PerEndpoint {
			list[i].Match.Paths = []rules.PathMatch{{Type: rules.PathPrefix, Value: fmt.Sprint("/", i%6)}}
		}
	}
	slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	return setOf(list...)
}

func randomRecords(n int) (records []accesslog.Record) {
	random := rand.New(rand.NewPCG(7, 7))
	at := time.Duration(0)
	for i := range n {
		at += time.Duration(random.ExpFloat64() * float64(20*time.Millisecond))
		r := record(at, int(random.ExpFloat64()*20), "x-cost", strconv.Itoa(random.IntN(4)))
		if random.IntN(10) > 0 {
			r.Request.Headers["x-tenant-id"] = fmt.Sprint("t", random.IntN(8))
		}
		if random.IntN(4) == 0 {
			r.Request.Headers["x-plan"] = "paid"
		}
		if random.IntN(9) > 0 {
			r.Request.Headers["x-user-id"] = fmt.Sprint("u", i)
		}
		r.Request.Path = fmt.Sprint("/", random.IntN(6), "/", random.IntN(1500))
		if random.IntN(4) == 0 {
			r.Request.Path = "/hot"
		}
		r.Line = i
		records = append(records, r)
	}
	return records
}

// The oracle is a limiter with counters in memory, whose clock is that of the log.
func TestRun_DecidesAsALimiter(t *testing.T) {
	records, now := randomRecords(20_000), start
	index, err := matching.NewIndex(everything(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	index.UseClock(clock)
	oracle := engine.New(memstore.New(clock), engine.SourceMemory, engine.NewMetrics(nil))
	oracle.Swap(index)
	type decision struct {
		policy, identifier, tier string
		limiter.Decision
	}
	seen, denied := 0, map[string]int{}
	r, err := New(Options{Policies: everything(), Domain: "shop", Observe: func(record *accesslog.Record, results []engine.Result, allowed bool) {
		if record.Line != seen {
			t.Fatalf("record %d after %d", record.Line, seen-1)
		}
		seen++
		now = record.Start
		check := engine.Check{Request: record.Request, Cost: 1, NoDelay: true}
		check.Request.Domain = "shop"
		answer, err := oracle.Check(t.Context(), &check)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []decision
		for _, r := range answer.Results {
			want = append(want, decision{r.Rule.Policy, r.Identifier, r.Tier, r.Decision})
		}
		for _, r := range slices.SortedStableFunc(slices.Values(results), engine.CompareResults) {
			got = append(got, decision{r.Rule.Policy, r.Identifier, r.Tier, r.Decision})
			if !r.Allowed {
				denied[r.Rule.Policy]++
			}
		}
		if allowed != answer.Allowed || !slices.Equal(got, want) {
			t.Fatalf("request %d: allowed %v, want %v: %s", record.Line, allowed, answer.Allowed, gocmp.Diff(want, got, gocmp.AllowUnexported(decision{})))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), &list{records: records}); err != nil {
		t.Fatal(err)
	}
	if seen != 20_000 || len(denied) != len(everything().Rules) {
		t.Errorf("%d requests, denials %v: want some of each policy", seen, denied)
	}
}

func TestResult_CountsEachPolicy(t *testing.T) {
	var records []accesslog.Record
	for second := range 120 {
		records = append(records, record(time.Duration(second)*time.Second, second%10))
		if second < 12 {
			records = append(records, record(time.Duration(second)*time.Second, 77))
		}
	}
	found := run(t, Options{Policies: setOf(rule("ip"), rule("trial", func(r *rules.Rule) { r.Units, r.Shadow = 3, true }))}, records...)
	if total := (result.Total{Requests: 132, Matched: 132, Denied: 27, ShadowDenied: 69, DeniedByAny: 69}); found.Total != total {
		t.Errorf("%+v, want %+v", found.Total, total)
	}
	p := found.Policies[0]
	at := func(second int) *time.Time { return new(start.Add(time.Duration(second) * time.Second)) }
	want := result.Policy{
		Name: "shop/ip", Axis: "IP", Algorithm: "FixedWindow", Limit: 5, WindowSeconds: 60,
		Matched: 132, Allowed: 105, Denied: 27, Identifiers: 11, DeniedIdentifiers: 11, FirstDenial: at(5), LastDenial: at(119),
		PeakUse:       &result.Use{Identifier: "192.0.0.77", Used: 5, Limit: 5, At: *at(4)},
		BusiestMinute: &result.Span{Start: start, Cell: result.Cell{Requests: 72, Denied: 17}},
		BusiestHour:   &result.Span{Start: start, Cell: result.Cell{Requests: 132, Denied: 27}},
		Use:           []result.Bin{{From: 6, To: 7, Identifiers: 10}, {From: 11, To: 13, Identifiers: 1}},
		HoursOfDay:    make([]result.Cell, 24),
	}
	want.HoursOfDay[10] = result.Cell{Requests: 132, Denied: 27}
	others := cmpopts.IgnoreFields(result.Policy{}, "Series", "Top", "Curve")
	if diff := gocmp.Diff(want, p, others); diff != "" {
		t.Error(diff)
	}
	top := result.Identifier{Identifier: "192.0.0.77", Cell: result.Cell{Requests: 12, Denied: 7}, Peak: 12, FirstDenial: *at(5)}
	if len(p.Top) != 11 || p.Top[0] != top {
		t.Errorf("%+v, want first %+v", p.Top, top)
	}
	var sum result.Cell
	for _, cell := range p.Series {
		sum.Requests += cell.Requests
		sum.Denied += cell.Denied
	}
	if len(p.Series) != 120 || len(found.Series) != 120 || found.BucketSeconds != 1 || sum != (result.Cell{Requests: 132, Denied: 27}) {
		t.Errorf("series of %d buckets of %d s: %+v", len(p.Series), found.BucketSeconds, sum)
	}
}

// Each tier sees its requests. An unlimited tier is only in the metrics of the engine.
func TestResult_CountsTiers(t *testing.T) {
	var records []accesslog.Record
	for i := range 30 {
		records = append(records, record(time.Second, 200, "x-tenant-id", "a", "x-plan", []string{"paid", "free", "none"}[i%3]))
	}
	plan := func(name string) rules.When {
		return rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderExact, Name: "x-plan", Value: name}}
	}
	set := setOf(rule("tiers", func(r *rules.Rule) {
		r.Tiers = []rules.Tier{{Name: "paid", When: plan("paid"), Units: 8}, {Name: "free", When: plan("free"), Unlimited: true}}
	}))
	p := run(t, Options{Policies: set, Limits: []int64{6}}, records...).Policies[0]
	want := []result.Tier{
		{Name: "paid", Limit: 8, Cell: result.Cell{Requests: 10, Denied: 4}},
		{Name: "free", Unlimited: true, Cell: result.Cell{Requests: 10}},
		{Limit: 5, Cell: result.Cell{Requests: 10, Denied: 8}},
	}
	if p.Unlimited != 10 || p.Matched != 30 || p.Denied != 12 {
		t.Errorf("%+v", p)
	}
	if diff := gocmp.Diff(want, p.Tiers); diff != "" {
		t.Error(diff)
	}
	// Other limits are tried for the requests of no tier, because those of tiers keep their limits.
	curve := &result.Curve{SampledOneIn: 1, Requests: 10, Identifiers: 1, Points: []result.CurvePoint{{Limit: 6, DeniedRequests: 4, DeniedIdentifiers: 1}}}
	if diff := gocmp.Diff(curve, p.Curve); diff != "" {
		t.Error(diff)
	}
}

// The limits that are tried are those that a replay with such a policy alone would have.
func TestResult_LimitsAreThoseOfAReplayWithEach(t *testing.T) {
	records := randomRecords(5000)
	limits := []int64{1, 3, 9, 20, 1000}
	for _, algorithm := range limiter.Algorithms() {
		of := func(units int64) rules.Set {
			return setOf(rule("ip", func(r *rules.Rule) { r.Algorithm, r.Units, r.WindowSeconds = algorithm, units, 20 }))
		}
		p := run(t, Options{Policies: of(9), Limits: limits}, records...).Policies[0]
		sampled := run(t, Options{Policies: of(9)}, records...).Policies[0].Curve
		if len(p.Curve.Points) != len(limits) || p.Curve.SampledOneIn != 1 || p.Curve.Identifiers != p.Identifiers || p.Curve.Requests != 5000 {
			t.Fatalf("%s: %+v", algorithm, p.Curve)
		}
		for _, point := range p.Curve.Points {
			alone := run(t, Options{Policies: of(point.Limit)}, records...).Policies[0]
			if want := (result.CurvePoint{Limit: point.Limit, DeniedRequests: alone.Denied, DeniedIdentifiers: alone.DeniedIdentifiers}); point != want {
				t.Errorf("%s: %+v, want %+v", algorithm, point, want)
			}
			for _, other := range sampled.Points {
				if other.Limit == point.Limit && other != point {
					t.Errorf("%s: %+v of the sample, want %+v", algorithm, other, point)
				}
			}
		}
	}
}

func TestResult_SuggestsTheSmallestLimit(t *testing.T) {
	records := randomRecords(5000)
	for _, ofRequests := range []bool{false, true} {
		suggest := &Suggest{Share: 0.02, OfRequests: ofRequests, Windows: []time.Duration{time.Minute, time.Hour}}
		p := run(t, Options{Policies: setOf(rule("ip")), Suggest: suggest}, records...).Policies[0]
		if len(p.Suggestions) != 2*len(limiter.Algorithms()) {
			t.Fatalf("%d suggestions", len(p.Suggestions))
		}
		for _, s := range p.Suggestions {
			share := func(units int64) float64 {
				set := setOf(rule("ip", func(r *rules.Rule) {
					r.Algorithm, r.Units, r.WindowSeconds = limiter.Algorithm(s.Algorithm), units, s.WindowSeconds
					if r.Algorithm.Traits().Queues {
						r.Algorithm = limiter.TokenBucket // denies the same as a queue that is one shorter, if requests can wait
					}
				}))
				alone := run(t, Options{Policies: set}, records...).Policies[0]
				if ofRequests {
					return float64(alone.Denied) / float64(alone.Matched)
				}
				return float64(alone.DeniedIdentifiers) / float64(alone.Identifiers)
			}
			if with, less := share(s.Limit), share(s.Limit-1); with > suggest.Share || less <= suggest.Share {
				t.Errorf("%+v denies %v, and one unit less %v, want at most %v and more", s, with, less, suggest.Share)
			}
			if s.Counters < 1 || s.RedisBytes < s.Counters*limiter.Algorithm(s.Algorithm).Traits().RedisBytes {
				t.Errorf("%+v: %d counters, %d bytes", s, s.Counters, s.RedisBytes)
			}
		}
	}
}

func TestResult_ComparesWithThePoliciesBefore(t *testing.T) {
	var records []accesslog.Record
	for i := range 20 {
		records = append(records, record(time.Duration(i)*time.Second, 1), record(time.Duration(i)*time.Second, 2))
	}
	units := func(n int64) func(*rules.Rule) { return func(r *rules.Rule) { r.Units = n } }
	only := func(r *rules.Rule) { r.Match.CIDRs = []string{"192.0.0.2/32"} }
	shadowed := rule("trial", units(1), func(r *rules.Rule) { r.Shadow = true })
	before := setOf(rule("changed", units(10)), rule("gone", units(8), only), rule("same", units(18)))
	after := setOf(rule("changed", units(15)), rule("new", units(4), only), rule("same", units(18)), shadowed)
	d := run(t, Options{Policies: after, Before: &before}, records...).Difference
	want := &result.Difference{
		// Client 1: 10 of 20 before, 15 after. Client 2: 8 before, 4 after.
		Before: result.Total{Requests: 40, Matched: 40, Denied: 22, DeniedByAny: 22}, NewlyDenied: 4, NewlyAllowed: 5,
		Policies: []result.PolicyDifference{
			{Name: "shop/changed", Change: result.Changed, DeniedBefore: 10, Denied: 5, NewlyAllowed: 5, IdentifiersAllowed: 1},
			{Name: "shop/gone", Change: result.Removed, DeniedBefore: 12},
			{Name: "shop/new", Change: result.Added, Denied: 16, NewlyDenied: 4, IdentifiersDenied: 1},
			{Name: "shop/same", Change: result.Unchanged},
			{Name: "shop/trial", Change: result.Added, Denied: 38}, // and denies nothing
		},
		TopDenied:  []result.Affected{{Policy: "shop/new", Identifier: "192.0.0.2", Requests: 4}},
		TopAllowed: []result.Affected{{Policy: "shop/changed", Identifier: "192.0.0.1", Requests: 5}},
	}
	if diff := gocmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}

func TestRun_LeavesOutWhatWasDenied(t *testing.T) {
	denied := record(time.Second, 1)
	denied.Status = 429
	for exclude, want := range map[bool]int64{true: 1, false: 2} {
		found := run(t, Options{Policies: setOf(rule("ip")), ExcludeDenied: exclude}, denied, record(time.Second, 1))
		if found.Total.Requests != want || found.Input.Excluded != 2-want {
			t.Errorf("exclude %v: %+v, %+v", exclude, found.Total, found.Input)
		}
	}
}

// The requests after one that is left out are decided, each with its own client.
func TestRun_DecidesTheRequestsAfterOneThatIsLeftOut(t *testing.T) {
	var records []accesslog.Record
	var want, got []string
	for i := range 2000 {
		r := record(time.Duration(i)*time.Second, i%7)
		if i%3 == 0 {
			r.Status = 429
		} else {
			want = append(want, r.Request.ClientIP.String())
		}
		records = append(records, r)
	}
	observe := func(r *accesslog.Record, results []engine.Result, _ bool) {
		if got = append(got, results[0].Identifier); r.Status == 429 {
			t.Errorf("a request that was left out: %+v", r)
		}
	}
	run(t, Options{Policies: setOf(rule("ip")), ExcludeDenied: true, Observe: observe}, records...)
	if !slices.Equal(got, want) {
		t.Errorf("%d requests, want %d, or another order", len(got), len(want))
	}
}

func TestRun_KubernetesWrites(t *testing.T) {
	write := func(namespace, user string, change func(*rules.KubernetesRequest)) accesslog.Record {
		k := &rules.KubernetesRequest{Operation: "CREATE", Version: "v1", Resource: "configmaps", Namespace: namespace, Name: "a", User: user}
		if change != nil {
			change(k)
		}
		return accesslog.Record{Start: start, Request: rules.KubernetesWrite(k)}
	}
	set := setOf(rule("writes", func(r *rules.Rule) {
		r.Identifier, r.Units, r.Axis = rules.Identifier{From: rules.FromKubernetesUser}, 1, "User"
		r.Match.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Operations: []string{"CREATE", "UPDATE"}},
		}}
	}))
	found := run(t, Options{Policies: set, Exempt: exempt.With("", exempt.Lists{})},
		write("shop", "jane", nil), write("shop", "jane", nil), write("other", "jane", nil), write("kube-system", "jane", nil), write("shop", "system:apiserver", nil),
		write("shop", "jane", func(k *rules.KubernetesRequest) { k.DryRun = true }), write("shop", "jane", func(k *rules.KubernetesRequest) { k.Operation = "DELETE" }))
	if p := found.Policies[0]; found.Total.Requests != 3 || p.Allowed != 1 || p.Denied != 1 {
		t.Errorf("%+v, %+v", found.Total, p)
	}
	slices.SortFunc(found.Input.Skipped, func(a, b result.Skipped) int { return strings.Compare(a.Reason, b.Reason) })
	if want := []result.Skipped{{Reason: "dry run", Lines: 1}, {Reason: "exempt write to the Kubernetes API", Lines: 3}}; !slices.Equal(found.Input.Skipped, want) {
		t.Errorf("%+v, want %+v", found.Input.Skipped, want)
	}
}

// blocking is a Source that waits after its first batch, like a pipe to which nothing is written. It needs a second to end with its context.
type blocking struct {
	list
	ended bool // written without a lock, for the race detector
}

func (b *blocking) Next(ctx context.Context) ([]accesslog.Record, error) {
	if len(b.records) == 0 {
		<-ctx.Done()
		time.Sleep(time.Second)
		b.ended = true
		return nil, ctx.Err()
	}
	return b.list.Next(ctx)
}

func TestRun_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which a wait takes no time
		ctx, cancel := context.WithCancel(t.Context())
		r, err := New(Options{Policies: setOf(rule("ip")), Domain: "shop", Observe: func(*accesslog.Record, []engine.Result, bool) { cancel() }})
		if err != nil {
			t.Fatal(err)
		}
		source := &blocking{list: list{records: []accesslog.Record{record(0, 1)}}}
		if err := r.Run(ctx, source); !errors.Is(err, context.Canceled) || !source.ended {
			t.Errorf("%v; the source has ended: %v", err, source.ended)
		}
		if found, err := r.Result(t.Context()); err != nil || found.Total.Requests != 1 {
			t.Errorf("%+v, %v; want what is known", found, err)
		}
	})
}

func TestRun_ReturnsTheErrorOfTheSource(t *testing.T) {
	failed := errors.New("truncated")
	r, err := New(Options{Policies: setOf(rule("ip")), Domain: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), &list{records: randomRecords(3000), err: failed}); !errors.Is(err, failed) || r.Requests() != 3000 {
		t.Errorf("%v after %d requests, want %v after 3000", err, r.Requests(), failed)
	}
}

// Counters never go back: what is too late is decided with what came before it.
func TestRun_DecidesLateRequestsAtTheTimeBefore(t *testing.T) {
	found := run(t, Options{Policies: setOf(rule("ip", func(r *rules.Rule) { r.Units = 1 }))}, record(90*time.Second, 1), record(30*time.Second, 1), record(91*time.Second, 1))
	if p := found.Policies[0]; found.Input.Late != 1 || p.Denied != 2 || !found.To.Equal(start.Add(91*time.Second)) {
		t.Errorf("%+v, %+v", found.Input, p)
	}
}

func TestResult_ReportsWhyAPolicyIsSilent(t *testing.T) {
	header := func(r *rules.Rule) {
		r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-plan"}}
	}
	descriptor := func(r *rules.Rule) { r.Match.Descriptors = []rules.DescriptorMatch{{Key: "a"}} }
	tests := map[string]func(*rules.Rule){
		`The requests are in domain "shop", and the policy is for domain "other": set --domain`: func(r *rules.Rule) { r.Policy, r.Domain = "other/a", "other" },
		"The policy has hosts, and the requests have none":                                      func(r *rules.Rule) { r.Match.Hosts = []string{"a.example"} },
		"one of the paths of the policy, for example /v2":                                       func(r *rules.Rule) { r.Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: "/v2"}} },
		"one of the methods of the policy: PUT":                                                 func(r *rules.Rule) { r.Match.Methods = []string{"PUT"} },
		"do not have the headers of the policy":                                                 header,
		"the networks of the policy":                                                            func(r *rules.Rule) { r.Match.CIDRs = []string{"10.0.0.0/8"} },
		"descriptors of Envoy":                                                                  descriptor,
		"which skips such requests: header x-a": func(r *rules.Rule) {
			r.Identifier, r.OnMissing = rules.Identifier{From: rules.FromHeader, Name: "x-a"}, rules.SkipMissing
		},
	}
	for want, change := range tests {
		p := run(t, Options{Policies: setOf(rule("a", change))}, record(0, 1), record(0, 2)).Policies[0]
		if !strings.Contains(p.Silent, want) || !strings.Contains(p.Silent, "2 of 2 requests") {
			t.Errorf("%q, want %q", p.Silent, want)
		}
	}
	write := func(namespace string) accesslog.Record {
		return accesslog.Record{Start: start, Request: rules.KubernetesWrite(&rules.KubernetesRequest{
			Operation: "CREATE", Version: "v1", Resource: "pods", Namespace: namespace, Name: "a", User: "bob",
		})}
	}
	ofWrites := rule("writes", func(r *rules.Rule) {
		r.Axis, r.Identifier = "User", rules.Identifier{From: rules.FromKubernetesUser}
		r.Match.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{{APIGroups: []string{""}, Resources: []string{"pods"}, Operations: []string{"CREATE"}}}}
	})
	for want, c := range map[string]struct {
		rule   rules.Rule
		record accesslog.Record
	}{
		"and the requests are others: replay an audit log":                     {ofWrites, record(0, 1)},
		`The policy is for writes in namespace "shop", and the log has writes`: {ofWrites, write("bank")},
		"and the policy limits other requests: replay an access log":           {rule("a"), write("bank")},
	} {
		for _, domain := range []string{"shop", "other"} {
			if p := run(t, Options{Policies: setOf(c.rule), Domain: domain}, c.record).Policies[0]; !strings.Contains(p.Silent, want) {
				t.Errorf("domain %s: %q, want %q", domain, p.Silent, want)
			}
		}
	}
	if p := run(t, Options{Policies: setOf(rule("a"))}, record(0, 1)).Policies[0]; p.Silent != "" {
		t.Errorf("a policy that matches is silent: %s", p.Silent)
	}
}

func TestResult_NotesRequestsWithoutIdentifier(t *testing.T) {
	set := setOf(rule("tenant", func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"} }))
	found := run(t, Options{Policies: set}, record(0, 1), record(0, 2, "x-tenant-id", "a"))
	if found.Policies[0].MissingIdentifier != 1 || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "1 of 2 requests have no identifier (header x-tenant-id)") {
		t.Errorf("%q", found.Notes)
	}
}

// Without the header of the tenant, a policy for tenants counts by address: its figures look plausible, and are those of another policy.
func TestResult_NotesRequestsThatAreCountedByAFallback(t *testing.T) {
	set := setOf(rule("tenant", func(r *rules.Rule) {
		r.Identifier, r.Fallbacks = rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}, []rules.Identifier{{From: rules.FromClientIP}}
	}))
	found := run(t, Options{Policies: set}, record(0, 1), record(0, 2, "x-tenant-id", "a"), record(0, 3))
	want := "2 of 3 requests do not have the first identifier of the policy (header x-tenant-id), and are counted by the client address."
	if found.Policies[0].FallbackIdentifier != 2 || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], want) {
		t.Errorf("%d, %q", found.Policies[0].FallbackIdentifier, found.Notes)
	}
}

func TestNew_RejectsWhatCannotBeReplayed(t *testing.T) {
	secret := setOf(rule("key", func(r *rules.Rule) {
		r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-api-key", Secret: true}
	}))
	if _, err := New(Options{Policies: secret}); err == nil || !strings.Contains(err.Error(), "hash key") {
		t.Errorf("%v", err)
	}
	large := setOf(rule("log", func(r *rules.Rule) { r.Algorithm = limiter.SlidingWindowLog }))
	if _, err := New(Options{Policies: large, Limits: []int64{limiter.MaxLogUnits + 1}}); err == nil || !strings.Contains(err.Error(), "shop/log") {
		t.Errorf("%v", err)
	}
}

// What no policy reads is left out of records. An expression can read all.
func TestReads_LeavesOutWhatNoPolicyReads(t *testing.T) {
	header := func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"} }
	query := func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromQuery, Name: "key"} }
	expression := func(r *rules.Rule) { r.Match.Expression = "true" }
	before := setOf(rule("c", query))
	for name, c := range map[string]struct {
		o          Options
		headers    []string
		noQuery    bool
		noObjects  bool
		everything bool
	}{
		"an address":       {Options{Policies: setOf(rule("a"))}, []string{}, true, true, false},
		"a header":         {Options{Policies: setOf(rule("a"), rule("b", header))}, []string{"x-tenant-id"}, true, true, false},
		"before":           {Options{Policies: setOf(rule("a")), Before: &before}, []string{}, false, true, false},
		"an expression":    {Options{Policies: setOf(rule("a"), rule("b", expression))}, nil, false, false, true},
		"an expression, 1": {Options{Policies: setOf(rule("b", expression), rule("a"))}, nil, false, false, true},
	} {
		s := Reads(&c.o)
		if s.SkipQuery != c.noQuery || s.SkipObjects != c.noObjects || !slices.Equal(s.Headers, c.headers) || (s.Headers == nil) != c.everything {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
