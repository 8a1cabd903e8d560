package reply

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// drawAnswer draws an answer in whole milliseconds, the precision of the JSON.
func drawAnswer(t *rapid.T) engine.Answer {
	source := rapid.SampledFrom([]engine.Source{engine.SourceRedis, engine.SourceLocal, engine.SourceCache})
	ms := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, limiter.MaxWindow.Milliseconds()).Draw(t, "ms")) * time.Millisecond
	})
	a := engine.Answer{
		Allowed: rapid.Bool().Draw(t, "allowed"), Delay: ms.Draw(t, "delay"), Source: source.Draw(t, "source"), Revision: rapid.String().Draw(t, "revision"),
		Results: []engine.Result{},
	}
	for range rapid.IntRange(0, 3).Draw(t, "results") {
		window := time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Second)).Draw(t, "window")) * time.Second
		algorithm := rapid.SampledFrom([]limiter.Algorithm{limiter.FixedWindow, limiter.LeakyBucket}).Draw(t, "algorithm")
		units := rapid.Int64Range(1, 1000).Draw(t, "limit")
		limit, err := limiter.NewLimit(algorithm, units, window)
		if err != nil {
			t.Fatal(err)
		}
		r := engine.Result{
			Rule: &matching.Compiled{Limit: limit, Rule: rules.Rule{
				Policy: "shop/" + rapid.String().Draw(t, "policy"), Axis: rapid.String().Draw(t, "axis"), Algorithm: algorithm,
				Shadow: rapid.Bool().Draw(t, "shadow"), Units: units, WindowSeconds: int64(window / time.Second),
			}},
			Identifier: rapid.StringN(-1, -1, maxIdentifier).Draw(t, "identifier"), Tier: rapid.String().Draw(t, "tier"), Window: window, Source: source.Draw(t, "its source"),
			Decision: limiter.Decision{
				Allowed: rapid.Bool().Draw(t, "allowed by it"), Limit: units, Remaining: rapid.Int64().Draw(t, "remaining"),
				ResetAfter: ms.Draw(t, "reset"), RetryAfter: rapid.OneOf(ms, rapid.Just(limiter.Never)).Draw(t, "retry"),
			},
		}
		if r.Allowed && algorithm == limiter.LeakyBucket {
			r.Delay = a.Delay
		}
		a.Results = append(a.Results, r)
	}
	if strictest := a.Strictest(); strictest != nil && !a.Allowed && rapid.Bool().Draw(t, "a response") {
		strictest.Rule.Denial = &rules.Denial{
			Status: rapid.SampledFrom(rules.DenialStatuses()).Draw(t, "status"), Message: "no", ContentType: "application/json",
			Headers: []rules.DenialHeader{{Name: "x-a", Value: rapid.StringMatching(`[!-~]{1,9}`).Draw(t, "value")}},
		}
	}
	return a
}

func TestReadAnswer_ReadsWhatNewAnswerWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Custom(drawAnswer).Draw(t, "answer")
		text, err := json.Marshal(NewAnswer(&want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadAnswer(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s is read as %+v, want %+v", text, got, want)
		}
	})
}

// equalsEncodingJSON reports a difference between AppendJSON and encoding/json.
func equalsEncodingJSON(t interface {
	Helper()
	Errorf(format string, args ...any)
}, a *Answer,
) {
	t.Helper()
	var want bytes.Buffer
	if err := json.NewEncoder(&want).Encode(a); err != nil {
		t.Errorf("encode: %v", err)
	}
	if got := string(a.AppendJSON([]byte("before"))); got != "before"+want.String() {
		t.Errorf("got\n%s, want \"before\" and\n%s", got, &want)
	}
}

func TestAnswer_AppendsTheSameJSONAsTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decided := rapid.Custom(drawAnswer).Draw(t, "answer")
		a := NewAnswer(&decided)
		equalsEncodingJSON(t, &a)
	})
}

func TestAnswer_AppendsEachMember(t *testing.T) {
	retry := int64(-1)
	for name, a := range map[string]Answer{
		"the zero answer": {Results: []Result{}},
		"all members": {
			Allowed: true, Policy: "a/b", Limit: 1, Remaining: 2, ResetAfterMs: 3, RetryAfterMs: &retry, DelayMs: 5, Source: "redis", Revision: "sha256:1",
			Results: []Result{{}, {
				Policy: "a/c", Axis: "User", Identifier: "<é>\x80\"\\\n", Algorithm: "LeakyBucket", Window: "1m0s", Tier: "free", Allowed: true, Limit: 6,
				Remaining: 7, ResetAfterMs: 8, RetryAfterMs: &retry, Shadow: true, Source: "local",
			}},
			Denial: &rules.Denial{Status: 402, Message: "no & never", ContentType: "a/b", Headers: []rules.DenialHeader{{Name: "x-a", Value: "b"}}},
		},
		"the longest numbers": {Limit: math.MaxInt64, Remaining: math.MinInt64, Results: []Result{{Limit: math.MinInt64, Remaining: math.MaxInt64}}},
	} {
		t.Run(name, func(t *testing.T) { equalsEncodingJSON(t, &a) })
	}
}

func BenchmarkAnswer_AppendJSON(b *testing.B) {
	decided := engine.Answer{Allowed: true, Source: engine.SourceRedis, Revision: "sha256:" + strings.Repeat("0", 64), Results: []engine.Result{
		{Rule: &matching.Compiled{Rule: tenantRule("a", 5)}, Identifier: "tenant-0000001", Source: engine.SourceRedis, Window: 24 * time.Hour},
	}}
	buffer := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		a := NewAnswer(&decided)
		buffer = a.AppendJSON(buffer[:0])
	}
}

func TestNewAnswer_HasTheNumbersOfTheStrictestPolicy(t *testing.T) {
	first := decided(t, tenantRule("b", 5), limiter.Decision{Limit: 5, Remaining: 1, ResetAfter: 2 * time.Second, RetryAfter: 3 * time.Second})
	second := decided(t, tenantRule("c", 9), limiter.Decision{Allowed: true, Limit: 9, Remaining: 8, ResetAfter: time.Second})
	got := NewAnswer(&engine.Answer{Results: []engine.Result{first, second}})
	if got.Policy != "shop/b" || got.Limit != 5 || got.Remaining != 1 || got.ResetAfterMs != 2000 || got.RetryAfterMs == nil || *got.RetryAfterMs != 3000 {
		t.Errorf("%+v, want the numbers of shop/b", got)
	}
	first.RetryAfter = limiter.Never
	if got := NewAnswer(&engine.Answer{Results: []engine.Result{first}}); got.RetryAfterMs != nil {
		t.Errorf("retry after %d ms, want never", *got.RetryAfterMs)
	}
}

func TestReadAnswer_RejectsWhatNoLimiterWrites(t *testing.T) {
	for text, valid := range map[string]bool{
		`{"allowed":false,"results":[]}`:                            true,
		`{"allowed":false,"results":[{"policy":"a","limit":1e30}]}`: true, // a newer limiter
		`{"allowed":false,"delayMs":"long","results":[]}`:           true,
		`{"allowed":false`:                 false,
		`[]`:                               false,
		`"no"`:                             false,
		`{"allowed":"no","results":[]}`:    false,
		`{"allowed":false,"results":[{}]}`: false,
	} {
		if got, err := ReadAnswer([]byte(text)); (err == nil) != valid || valid && got.Allowed {
			t.Errorf("%s: %+v, error %v; valid is %v", text, got, err, valid)
		}
	}
}

func TestReadAnswer_BoundsDurations(t *testing.T) {
	const longest = 9_223_372_036_853 * time.Millisecond
	got, err := ReadAnswer([]byte(`{"delayMs":-1,"results":[{"policy":"a","resetAfterMs":9223372036854775807,"retryAfterMs":9223372036854}]}`))
	if err != nil || got.Delay != 0 || got.Results[0].ResetAfter != longest || got.Results[0].RetryAfter != longest {
		t.Errorf("%+v, %v; want durations of 0 to %v", got, err, longest)
	}
}

// A client chooses its identifier, and each policy that it matches has a result.
func TestNewAnswer_ClipsLongIdentifiers(t *testing.T) {
	for name, test := range map[string]struct{ identifier, want string }{
		"the longest":              {strings.Repeat("a", 256), strings.Repeat("a", 256)},
		"longer":                   {strings.Repeat("a", 257), strings.Repeat("a", 253) + "…"},
		"60 KB":                    {strings.Repeat("a", 60<<10), strings.Repeat("a", 253) + "…"},
		"a character at the bound": {strings.Repeat("a", 252) + "éaaa", strings.Repeat("a", 252) + "…"},
		"of four bytes":            {strings.Repeat("a", 250) + "😀aaa", strings.Repeat("a", 250) + "…"},
		"one that fits exactly":    {strings.Repeat("a", 251) + "éaaaa", strings.Repeat("a", 251) + "é…"},
		"without characters":       {strings.Repeat("\x80", 300), "…"},
	} {
		a := engine.Answer{Results: []engine.Result{{Rule: &matching.Compiled{}, Identifier: test.identifier}}}
		if got := NewAnswer(&a).Results[0].Identifier; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
