package reliability

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
)

const second = int64(1_000_000) // in the unit of a log

// redis, local and failed return answers for a cool tenant that take a millisecond.
func redis(limiter int, at int64) Answer {
	return Answer{Due: at, Sent: at, Done: at + 1000, Limiter: limiter, Allowed: true, Source: sourceRedis}
}

func local(limiter int, at int64) Answer {
	a := redis(limiter, at)
	a.Source = "local"
	return a
}

func failed(limiter int, at int64) Answer {
	a := redis(limiter, at)
	a.Allowed, a.Source, a.Failure = false, "", "HTTP 503"
	return a
}

func TestRecovery_EndsWithTheLastAnswerWithoutRedis(t *testing.T) {
	cached := redis(0, 11*second)
	cached.Source = sourceCache
	tests := map[string]struct {
		answers []Answer
		now     int64
		took    time.Duration
		ended   bool
	}{
		"Redis decides immediately": {[]Answer{local(0, 9*second), redis(0, 10*second+1), redis(1, 10*second+1)}, 11 * second, 0, true},
		"one limiter still decides locally for a while": {
			[]Answer{redis(0, 11*second), local(1, 12*second), redis(1, 13*second), redis(0, 13*second)}, 14 * second, 2001 * time.Millisecond, true,
		},
		"a failure is an answer without Redis": {
			[]Answer{failed(1, 11*second), redis(0, 12*second), redis(1, 12*second)}, 13 * second, 1001 * time.Millisecond, true,
		},
		"a second must pass":                             {[]Answer{redis(0, 10*second+1), redis(1, 10*second+1)}, 11*second - 1, 0, false},
		"an answer that arrives later does not count":    {[]Answer{redis(0, 10*second+1), redis(1, 10*second+1), local(0, 11*second)}, 11 * second, 0, true},
		"a limiter without answers has not recovered":    {[]Answer{redis(0, 11*second)}, 13 * second, 0, false},
		"a known denial does not prove that Redis works": {[]Answer{cached, redis(1, 11*second)}, 13 * second, 0, false},
		"a known denial is not an answer without Redis":  {[]Answer{cached, redis(0, 11*second), redis(1, 11*second)}, 12 * second, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			took, ended := recovery(tt.answers, 2, 10*second, tt.now, time.Second)
			if took != tt.took || ended != tt.ended {
				t.Errorf("%v, ended %v, want %v, %v", took, ended, tt.took, tt.ended)
			}
		})
	}
}

// trial returns a trial in which Redis was broken at 5 s and repaired at 6 s. It ended at 8 s.
func trial(answers ...Answer) *Trial {
	return &Trial{
		Fault: "drawn", Limiters: 1, Answers: answers, HotPerSecond: 100, Began: 0,
		Broken: 5 * second, Repaired: 6 * second, FaultEnd: 6 * second, Ended: 8 * second, Settled: time.Second,
	}
}

func TestMeasure_SeparatesBeforeDuringAndAfterTheFault(t *testing.T) {
	slow := local(0, 5*second+1) // within the detection period
	slow.Done = slow.Sent + second/2
	slower := local(0, 5*second+second/2)
	slower.Done = slower.Sent + second/100
	got := Measure(trial(redis(0, second), slow, slower, failed(0, 5*second+second/4), redis(0, 7*second)))
	want := Result{
		Fault: "drawn", Rate: 5.0 / 8, Outage: time.Second, Requests: 4, Failures: map[string]int{"HTTP 503": 1},
		Sources: map[string]int{"local": 2}, P99: 10 * time.Millisecond, Calm: time.Millisecond, SteadyP99: time.Millisecond, SteadyCalm: time.Millisecond, Slowest: 500 * time.Millisecond, Overs: []Over{}, Recovered: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSteadyP99_IgnoresAPauseButNotWhatIsAlwaysSlow(t *testing.T) {
	drawn := func(slow func(at int64, n int) bool) []*Answer {
		var all []*Answer
		for n := range 1000 { // one in each millisecond
			a := redis(0, 5*second+int64(n)*1000)
			if slow(a.Sent-5*second, n) {
				a.Done = a.Sent + 50_000
			}
			all = append(all, &a)
		}
		return all
	}
	tests := map[string]struct {
		slow func(at int64, n int) bool
		want time.Duration
	}{
		"no answer is slow":                {func(int64, int) bool { return false }, time.Millisecond},
		"a pause of 400 ms":                {func(at int64, _ int) bool { return at < 400_000 }, time.Millisecond},
		"two of a hundred are always slow": {func(_ int64, n int) bool { return n%50 == 0 }, 50 * time.Millisecond},
		"600 ms are slow":                  {func(at int64, _ int) bool { return at >= 400_000 }, 50 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := steadyP99(drawn(tt.slow)); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if got := steadyP99(nil); got != 0 {
		t.Errorf("%v without answers, want 0", got)
	}
}

func TestMeasure_CountsWhatWasWrongJustBeforeTheFault(t *testing.T) {
	tests := map[string]struct {
		answer        Answer
		failed, local int
	}{
		"decided by Redis":         {redis(0, 5*second-2000), 0, 0},
		"decided locally":          {local(0, 5*second-2000), 0, 1},
		"failed":                   {failed(0, 5*second-2000), 1, 0},
		"a second before":          {failed(0, 4*second), 1, 0},
		"earlier":                  {failed(0, 4*second-1), 0, 0},
		"answered after the fault": {local(0, 5*second-1000), 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if r := Measure(trial(tt.answer)); r.FailedBefore != tt.failed || r.LocalBefore != tt.local {
				t.Errorf("%d failed, %d without Redis, want %d, %d", r.FailedBefore, r.LocalBefore, tt.failed, tt.local)
			}
		})
	}
}

func TestMeasure_CountsTheUnitsOfTheHotTenants(t *testing.T) {
	var answers []Answer
	for n := range int64(13) {
		a := redis(0, 4*second+n*2000)
		a.Hot, a.Policy = n < 12, 1
		answers = append(answers, a)
	}
	x := trial(answers...)
	x.Policies = []Policy{
		{Algorithm: limiter.FixedWindow, Limit: 10, Window: time.Second},
		{Algorithm: limiter.SlidingWindowLog, Limit: 10, Window: time.Second},
	}
	r := Measure(x)
	if r.Overs[0].Units != 0 || r.Overs[1].Units != 2 || r.Overs[1].Percent() != 20 {
		t.Errorf("%+v", r.Overs)
	}
	if want := 12.0 / (2 * 8 * 10); r.Given != want {
		t.Errorf("hot tenants were admitted %v of their limits, want %v", r.Given, want)
	}
	x.Forgets = true
	if after := Measure(x).Overs[1].Allowed; after != r.Overs[1].Allowed+10 {
		t.Errorf("%d units over are allowed if Redis loses counters, %d otherwise", after, r.Overs[1].Allowed)
	}
}

func TestAllowance_IsTheDocumentedBound(t *testing.T) {
	// 2 × 100/s × 50 ms that replicas did not know of, and 2 units that they round up.
	tests := map[string]struct {
		algorithm limiter.Algorithm
		change    func(*Trial)
		want      int64
	}{
		"a fixed window":                         {limiter.FixedWindow, func(*Trial) {}, 12},
		"a log with a precision of 1/64 window":  {limiter.SlidingWindowLog, func(*Trial) {}, 12 + 2},
		"a bucket drains half a second longer":   {limiter.TokenBucket, func(*Trial) {}, 12 + 10},
		"the limit again if Redis lost counters": {limiter.FixedWindow, func(x *Trial) { x.Forgets = true }, 12 + 100},
		"the load during a pause of 100 ms":      {limiter.FixedWindow, func(x *Trial) { x.Answers = []Answer{{Due: second, Sent: second + 100_000}} }, 32},
		"for each outage that a window overlaps": {limiter.FixedWindow, func(x *Trial) { x.Outages = 8 }, 12 * 6},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := &Trial{Limiters: 3, HotPerSecond: 100, Broken: second, Repaired: 9 * second}
			test.change(x)
			p := Policy{Algorithm: test.algorithm, Limit: 100, Window: 5 * time.Second}
			if got := allowance(p, x); got != test.want {
				t.Errorf("%d units, want %d", got, test.want)
			}
		})
	}
}

func TestShortfalls_DescribeWhatIsWorseThanExpected(t *testing.T) {
	good := Result{Fault: "f", Requests: 10, Recovered: true, SteadyP99: 6 * time.Millisecond, SteadyCalm: time.Millisecond, Recovery: 2 * time.Second, Given: 0.6}
	if got := good.Shortfalls(usual()); len(got.All()) > 0 {
		t.Errorf("shortfalls of a good result: %q", got)
	}
	bad := Result{
		Fault: "f", Requests: 10, Failures: map[string]int{"HTTP 503": 3}, SteadyP99: 6 * time.Millisecond, Recovered: true, Recovery: 3 * time.Second, Given: 0.5,
		Overs: []Over{{Policy: Policy{Algorithm: limiter.FixedWindow, Limit: 10, Window: time.Second}, Units: 3, Allowed: 2}}, FailedBefore: 1, LocalBefore: 2,
	}
	want := Shortfalls{
		Wrong: []string{
			"f: 1 requests failed before the fault",
			"f: 3 of 10 requests failed, want at most 0: map[HTTP 503:3]",
			"f: hot tenants were admitted 0.50 of their limits, want at least 0.60",
			"f: FixedWindow with limit 10 per 1s admitted 3 units too many, want at most 2",
		},
		Slow: []string{
			"f: 2 requests were decided without Redis before the fault",
			"f: p99 latency is usually 6ms, want at most 5ms more than the usual 0s before the fault",
			"f: limiters decided with Redis again after 3s, want at most 2s",
		},
	}
	if diff := cmp.Diff(want, bad.Shortfalls(usual())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	never := Result{Fault: "f"}
	wantNever := Shortfalls{Wrong: []string{
		"f: no requests were sent",
		"f: hot tenants were admitted 0.00 of their limits, want at least 0.60",
		"f: not all limiters decide with Redis again; the last answer without Redis arrived 0s after the repair",
	}}
	if diff := cmp.Diff(wantNever, never.Shortfalls(usual())); diff != "" {
		t.Errorf("without requests (-want +got)\n%s", diff)
	}
}

func TestTable_IsMarkdown(t *testing.T) {
	r := Result{
		Fault: "killed", Outage: 2 * time.Second, Requests: 1000, Failures: map[string]int{"HTTP 503": 9, "HTTP 500": 1},
		P99: 1234 * time.Microsecond, Slowest: 50 * time.Millisecond, Sources: map[string]int{"cache": 1, "local": 3}, Calm: time.Millisecond, Given: 0.98,
		Recovery: 910 * time.Millisecond, Recovered: true,
		Overs: []Over{{Policy: Policy{Algorithm: limiter.FixedWindow, Limit: 200}, Units: 11}},
	}
	want := `| fault | Redis unavailable | requests | errors | p99 before | p99 | slowest | decided by | recovered after | allowed | over: FixedWindow |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| killed | 2.00 s | 1000 | 1.0 % (HTTP 503, HTTP 500) | 1.0 ms | 1.2 ms | 50.0 ms | local 75 %, cache 25 % | 0.91 s | 98 % | 11 (6 %) |
`
	if diff := cmp.Diff(want, Table([]Result{r})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSplice_ReplacesTheTextBetweenTheMarks(t *testing.T) {
	page := []byte("before\n" + begin + "\n\nold\n\n" + end + "\nafter\n")
	once, err := Splice(page, "\nnew\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + begin + "\n\nnew\n\n" + end + "\nafter\n"; string(once) != want {
		t.Errorf("%s", once)
	}
	if _, err := Splice([]byte("no marks"), "new"); err == nil {
		t.Error("no error for a page without marks")
	}
}

func TestFaults_HaveUniqueNamesAndSomeAreShort(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		if seen[f.Name] || f.Name == "" || f.What == "" || f.Start == nil {
			t.Errorf("fault %q", f.Name)
		}
		seen[f.Name] = true
	}
	if n := len(Short()); n == 0 || n == len(seen) {
		t.Errorf("%d of %d faults are short", n, len(seen))
	}
}
