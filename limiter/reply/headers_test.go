package reply

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func tenantRule(name string, units int64) rules.Rule {
	return rules.Rule{
		Policy: "shop/" + name, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 60,
	}
}

func shadowRule(name string) rules.Rule {
	r := tenantRule(name, 1)
	r.Shadow = true
	return r
}

// decided is the result of a rule of 60 seconds.
func decided(t *testing.T, rule rules.Rule, d limiter.Decision) engine.Result {
	t.Helper()
	limit, err := rule.Limit()
	if err != nil {
		t.Fatal(err)
	}
	d.Limit = limit.Units()
	return engine.Result{Rule: &matching.Compiled{Rule: rule, Limit: limit}, Identifier: "acme", Window: limit.Window(), Decision: d}
}

func epoch() time.Time { return time.Unix(1_790_000_000, 1) }

func TestSetHeaders_RateLimit(t *testing.T) {
	const just = time.Microsecond
	allowed := limiter.Decision{Allowed: true, Remaining: 7, ResetAfter: 30*time.Second + just}
	denied := limiter.Decision{ResetAfter: 60 * time.Second, RetryAfter: 20*time.Second + just}
	at := func(d limiter.Decision, retry time.Duration) limiter.Decision {
		d.RetryAfter = retry
		return d
	}
	tests := map[string]struct {
		answer engine.Answer
		want   http.Header
	}{
		"no policy, no headers": {engine.Answer{Allowed: true}, http.Header{}},
		"seconds are rounded up": {
			engine.Answer{Allowed: true, Results: []engine.Result{decided(t, tenantRule("a", 9), allowed)}},
			http.Header{
				"RateLimit-Policy": {`"shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/a";r=7;t=31`},
			},
		},
		"all enforced policies in the engine's order, shadow policies never": {
			engine.Answer{Results: []engine.Result{
				decided(t, tenantRule("b", 5), denied), decided(t, tenantRule("a", 9), allowed), decided(t, shadowRule("c"), denied),
			}},
			http.Header{
				"RateLimit-Policy": {`"shop/b";q=5;w=60, "shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/b";r=0;t=21, "shop/a";r=7;t=31`},
				"Retry-After":      {"21"},
			},
		},
		"the end of a limit of 0 is unknown": {
			engine.Answer{Results: []engine.Result{decided(t, tenantRule("b", 0), at(limiter.Decision{}, limiter.Never))}},
			http.Header{
				"RateLimit-Policy": {`"shop/b";q=0;w=60`},
				"RateLimit":        {`"shop/b";r=0`},
			},
		},
		"shadow policies alone, no headers": {
			engine.Answer{Allowed: true, Results: []engine.Result{decided(t, shadowRule("c"), denied)}}, http.Header{},
		},
		"a wait below a second is a second": {
			engine.Answer{Results: []engine.Result{decided(t, tenantRule("a", 9), at(denied, just))}},
			http.Header{
				"RateLimit-Policy": {`"shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/a";r=0;t=1`},
				"Retry-After":      {"1"},
			},
		},
		"no wait that suffices, no Retry-After": {
			engine.Answer{Results: []engine.Result{decided(t, tenantRule("a", 9), at(denied, limiter.Never))}},
			http.Header{
				"RateLimit-Policy": {`"shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/a";r=0;t=60`},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := http.Header{}
			if err := RateLimitHeaders.SetHeaders(got, &test.answer, epoch()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetHeaders_InvalidPolicyNameStillSetsRetryAfter(t *testing.T) {
	rule := tenantRule("täglich", 1)
	answer := engine.Answer{Results: []engine.Result{decided(t, rule, limiter.Decision{RetryAfter: time.Second})}}
	header := http.Header{}
	if err := RateLimitHeaders.SetHeaders(header, &answer, epoch()); err == nil {
		t.Error("no error for a policy name outside ASCII")
	}
	if diff := cmp.Diff(http.Header{"Retry-After": {"1"}}, header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestSetHeaders_ByStyle(t *testing.T) {
	allowed := limiter.Decision{Allowed: true, Remaining: 7, ResetAfter: 30 * time.Second}
	denied := limiter.Decision{ResetAfter: 60 * time.Second, RetryAfter: 20*time.Second + time.Microsecond}
	two := func() engine.Answer {
		return engine.Answer{Results: []engine.Result{
			decided(t, tenantRule("b", 5), denied), decided(t, tenantRule("a", 9), allowed), decided(t, shadowRule("c"), denied),
		}}
	}
	one := func() engine.Answer {
		return engine.Answer{Allowed: true, Results: []engine.Result{decided(t, tenantRule("a", 9), allowed)}}
	}
	missing := func() engine.Answer {
		r := decided(t, tenantRule("b", 10), limiter.Decision{Limit: 10, RetryAfter: limiter.Never})
		r.Missing = "header x-tenant-id"
		return engine.Answer{Results: []engine.Result{r}}
	}
	blocked := func() engine.Answer {
		return engine.Answer{Results: []engine.Result{decided(t, tenantRule("b", 0), limiter.Decision{RetryAfter: limiter.Never})}}
	}
	tests := map[string]struct {
		style  Style
		answer engine.Answer
		want   http.Header
	}{
		"XRateLimit has the strictest numbers and every policy": {XRateLimitHeaders, two(), http.Header{
			"X-RateLimit-Limit":     {`5, 5;w=60;name="shop/b", 9;w=60;name="shop/a"`},
			"X-RateLimit-Remaining": {"0"},
			"X-RateLimit-Reset":     {"21"},
			"Retry-After":           {"21"},
		}},
		"XRateLimit for a limit of 0": {XRateLimitHeaders, blocked(), http.Header{
			"X-RateLimit-Limit": {`0, 0;w=60;name="shop/b"`}, "X-RateLimit-Remaining": {"0"},
		}},
		"XRateLimit without an identifier": {XRateLimitHeaders, missing(), http.Header{
			"X-RateLimit-Limit": {`10, 10;w=60;name="shop/b"`}, "X-RateLimit-Remaining": {"0"},
		}},
		"RateLimit without an identifier": {RateLimitHeaders, missing(), http.Header{
			"RateLimit-Policy": {`"shop/b";q=10;w=60`}, "RateLimit": {`"shop/b";r=0`},
		}},
		"GitHub for a limit of 0": {GitHubHeaders, blocked(), http.Header{"X-RateLimit-Limit": {"0"}, "X-RateLimit-Remaining": {"0"}}},
		"XRateLimit for an allowed request": {XRateLimitHeaders, one(), http.Header{
			"X-RateLimit-Limit":     {`9, 9;w=60;name="shop/a"`},
			"X-RateLimit-Remaining": {"7"},
			"X-RateLimit-Reset":     {"30"},
		}},
		"GitHub has plain numbers and the second of the reset, rounded up": {GitHubHeaders, two(), http.Header{
			"X-RateLimit-Limit":     {"5"},
			"X-RateLimit-Remaining": {"0"},
			"X-RateLimit-Reset":     {"1790000021"},
			"Retry-After":           {"21"},
		}},
		"None has only Retry-After":                {NoHeaders, two(), http.Header{"Retry-After": {"21"}}},
		"None for an allowed request has no field": {NoHeaders, one(), http.Header{}},
		"no policy, no headers":                    {GitHubHeaders, engine.Answer{Allowed: true}, http.Header{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := http.Header{}
			if err := test.style.SetHeaders(got, &test.answer, epoch()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseStyle_AcceptsTheNameOfEveryStyle(t *testing.T) {
	for _, style := range []Style{RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders} {
		if got, err := ParseStyle(string(style)); err != nil || got != style {
			t.Errorf("ParseStyle(%q) = %q, %v", style, got, err)
		}
	}
	const want = `unknown header family "draft11": must be RateLimit, XRateLimit, GitHub or None`
	if _, err := ParseStyle("draft11"); err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// A client can choose a path that many policies match. A proxy must be able to read the response all the same: nginx has 4 KiB for all fields.
func TestSetHeaders_ManyPoliciesFitInTheBufferOfAProxy(t *testing.T) {
	denial := &rules.Denial{Headers: make([]rules.DenialHeader, rules.MaxDenialHeaders)}
	for i := range denial.Headers {
		denial.Headers[i] = rules.DenialHeader{Name: "x-" + strings.Repeat(strconv.Itoa(i), 62), Value: strings.Repeat("v", 256)}
	}
	for name, test := range map[string]struct {
		length, most int // of a policy's name, and of all fields in bytes
		denial       *rules.Denial
		listed       int
	}{
		"short names":                  {8, 2048, nil, 22},
		"names of 60 bytes":            {60, 2048, nil, 10},
		"the longest names":            {311, 2048, nil, 2},
		"the longest denial":           {60, 3072, denial, 1},
		"the longest denial and names": {311, 3584, denial, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var answer engine.Answer
			for i := range 32 {
				rule := tenantRule(fmt.Sprintf("%0*d", test.length, i), limiter.MaxUnits)
				rule.Algorithm = limiter.SlidingWindowCounter
				rule.Denial, rule.WindowSeconds = test.denial, int64(limiter.MaxWindow.Seconds())
				answer.Results = append(answer.Results, decided(t, rule, limiter.Decision{RetryAfter: limiter.MaxWindow}))
			}
			for _, style := range []Style{RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders} {
				w := httptest.NewRecorder()
				if err := style.SetHeaders(w.Header(), &answer, epoch()); err != nil {
					t.Fatal(err)
				}
				response := NewDenial(&answer)
				response.Write(w)
				size := 0
				for name, values := range w.Header() {
					size += len(name) + len(": \r\n") + len(strings.Join(values, ""))
				}
				if size > test.most {
					t.Errorf("%s: the fields have %d bytes, want at most %d", style, size, test.most)
				}
				for field, more := range map[string]int{"RateLimit": 0, "RateLimit-Policy": 0, "X-RateLimit-Limit": 1} {
					list := w.Header()[field]
					if list == nil || style == GitHubHeaders {
						continue
					}
					members := strings.Split(list[0], ", ")
					if len(members) != test.listed+more || !strings.Contains(members[more], answer.Results[0].Rule.Policy) {
						t.Errorf("%s: %d members, want %d, strictest first: %s", field, len(members), test.listed+more, list[0])
					}
				}
				if body := w.Body.Len(); body > 3072 {
					t.Errorf("the body has %d bytes", body)
				}
			}
		})
	}
}

func TestFields_AreOrderedAndInLowerCase(t *testing.T) {
	var got []string
	for name, value := range Fields(http.Header{"RateLimit-Policy": {"b"}, "RateLimit": {"a"}, "Retry-After": {"1", "2"}}) {
		got = append(got, name+"="+value)
	}
	if diff := cmp.Diff([]string{"ratelimit=a", "ratelimit-policy=b", "retry-after=1", "retry-after=2"}, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
