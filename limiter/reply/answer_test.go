package reply

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
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
			Rule: &rules.Compiled{Limit: limit, Rule: rules.Rule{
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
		a := engine.Answer{Results: []engine.Result{{Rule: &rules.Compiled{}, Identifier: test.identifier}}}
		if got := NewAnswer(&a).Results[0].Identifier; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
