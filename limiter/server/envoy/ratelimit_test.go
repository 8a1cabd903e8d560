package envoy

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestRateLimit_ReportsRemainingUnits(t *testing.T) {
	w := limiterOf(t, per("s", 50, time.Second, "generic_key=s"))
	wantJSON(t, w.ask(t, describe("generic_key=s")), `{
	  "overallCode": "OK",
	  "statuses": [{"code": "OK", "currentLimit": {"name": "shop/s", "requestsPerUnit": 50, "unit": "SECOND"},
	                "limitRemaining": 49, "durationUntilReset": "1s"}],
	  "responseHeadersToAdd": [{"key": "ratelimit", "value": "\"shop/s\";r=49;t=1"}, {"key": "ratelimit-policy", "value": "\"shop/s\";q=50;w=1"}],
	  "dynamicMetadata": {"descriptors": [{"result": "OK", "policies": [{"policy": "shop/s", "result": "OK"}]}],
	                      "source": "memory", "revision": "sha256:1"}
	}`)
}

func TestRateLimit_AllowsRequestsUpToTheLimit(t *testing.T) {
	w := limiterOf(t, per("m", 20, time.Minute, "generic_key=m"))
	for i := range 25 {
		want := fmt.Sprintf("OK: OK %d", 19-i)
		if i >= 20 {
			want = "OVER_LIMIT: OVER_LIMIT 0"
		}
		wantSummary(t, w.ask(t, describe("generic_key=m")), want)
	}
}

func TestRateLimit_ReportsADenial(t *testing.T) {
	w := limiterOf(t, per("m", 1, time.Minute, "generic_key=m"))
	w.ask(t, describe("generic_key=m"))
	answer := w.ask(t, describe("generic_key=m"), describe("generic_key=unlimited"))
	wantBody := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
		`"detail":"over the limit of shop/m; retry in 60 s","violated-policies":["shop/m"]}` + "\n"
	if got := string(answer.GetRawBody()); got != wantBody {
		t.Errorf("body %s", got)
	}
	answer.RawBody = nil
	wantJSON(t, answer, `{
	  "overallCode": "OVER_LIMIT",
	  "statuses": [{"code": "OVER_LIMIT", "currentLimit": {"name": "shop/m", "requestsPerUnit": 1, "unit": "MINUTE"}, "durationUntilReset": "60s"},
	               {"code": "OK"}],
	  "responseHeadersToAdd": [
	    {"key": "content-type", "value": "application/problem+json"},
	    {"key": "ratelimit", "value": "\"shop/m\";r=0;t=60"}, {"key": "ratelimit-policy", "value": "\"shop/m\";q=1;w=60"},
	    {"key": "retry-after", "value": "60"}],
	  "dynamicMetadata": {"descriptors": [{"result": "OVER_LIMIT", "policies": [{"policy": "shop/m", "result": "OVER_LIMIT"}]}, {"result": "OK"}],
	                      "source": "memory", "revision": "sha256:1"}
	}`)
}

// The filter sends the status of its own configuration, so the body must not claim another one.
func TestRateLimit_DeniesWithTheBodyAndTheHeadersOfThePolicy(t *testing.T) {
	for name, test := range map[string]struct {
		denial    rules.Denial
		mediaType string
		body      string
	}{
		"a message": {rules.Denial{Status: 402, Message: "{}", ContentType: "application/json"}, "application/json", "{}"},
		"a status": {
			rules.Denial{Status: 402},
			"application/problem+json",
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
				`"detail":"over the limit of shop/m; retry in 60 s","violated-policies":["shop/m"]}` + "\n",
		},
	} {
		test.denial.Headers = []rules.DenialHeader{{Name: "x-plan", Value: "free"}}
		rule := per("m", 1, time.Minute, "generic_key=m")
		rule.Denial = &test.denial
		w := limiterOf(t, rule)
		w.ask(t, describe("generic_key=m"))
		answer := w.ask(t, describe("generic_key=m"))
		headers := map[string]string{}
		for _, h := range answer.GetResponseHeadersToAdd() {
			headers[h.GetKey()] = h.GetValue()
		}
		want := map[string]string{
			"content-type": test.mediaType, "x-plan": "free", "ratelimit": `"shop/m";r=0;t=60`, "ratelimit-policy": `"shop/m";q=1;w=60`, "retry-after": "60",
			"cache-control": "no-store",
		}
		if diff := cmp.Diff(want, headers); string(answer.GetRawBody()) != test.body || diff != "" {
			t.Errorf("%s: body %s, headers (-want +got):\n%s", name, answer.GetRawBody(), diff)
		}
	}
}

func TestRateLimit_ChargesAllDescriptorsOrNone(t *testing.T) {
	w := limiterOf(t, per("h", 10, time.Hour, "tenant"), per("m", 20, time.Minute, "generic_key=m"))
	for i := range 15 {
		want := fmt.Sprintf("OK: OK %d, OK %d", 19-i, 9-i)
		if i >= 10 { // the limit per minute is not charged for requests that the limit per hour denies
			want = "OVER_LIMIT: OK 10, OVER_LIMIT 0"
		}
		wantSummary(t, w.ask(t, describe("generic_key=m"), describe("tenant=acme")), want)
	}
	wantSummary(t, w.ask(t, describe("tenant=globex"), describe("generic_key=m")), "OK: OK 9, OK 9")
}

func TestRateLimit_MatchesWholeDescriptors(t *testing.T) {
	w := limiterOf(t,
		per("chain", 5, time.Minute, "path=/login tenant=acme user"), // any user
		per("tenant", 7, time.Minute, "tenant"),
	)
	for text, want := range map[string]string{
		"path=/login tenant=acme user=u1":     "OK: OK 4",
		"path=/login tenant=acme user=u2":     "OK: OK 4", // a separate counter
		"path=/login tenant=acme user=":       "OK: OK 4", // the missing user
		"path=/login tenant=globex user=u1":   "OK: OK -",
		"path=/login tenant=acme":             "OK: OK -",
		"path=/login tenant=acme user=u1 x=y": "OK: OK -",
		"tenant=acme path=/login user=u1":     "OK: OK -", // order counts
		"tenant=acme":                         "OK: OK 6",
		"tenant=4294967295":                   "OK: OK 6",
	} {
		t.Run(text, func(t *testing.T) { wantSummary(t, w.ask(t, describe(text)), want) })
	}
}

func TestRateLimit_CountsHits(t *testing.T) {
	const m = "generic_key=m"
	ofRequest := func(hits uint32, d *descriptorv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
		r := request(d)
		r.HitsAddend = hits
		return r
	}
	tests := map[string]struct {
		asked []*ratelimitv3.RateLimitRequest
		want  string // summary of the last answer
	}{
		"hits of the request":             {[]*ratelimitv3.RateLimitRequest{ofRequest(3, describe(m))}, "OK: OK 7"},
		"0 hits of the request mean 1":    {[]*ratelimitv3.RateLimitRequest{ofRequest(0, describe(m))}, "OK: OK 9"},
		"the descriptor takes precedence": {[]*ratelimitv3.RateLimitRequest{ofRequest(3, counting(5, m))}, "OK: OK 5"},
		"0 hits of the descriptor peek":   {[]*ratelimitv3.RateLimitRequest{ofRequest(3, counting(0, m))}, "OK: OK 10"},
		"0 hits report whether one would pass": {
			[]*ratelimitv3.RateLimitRequest{request(counting(10, m)), request(counting(0, m))}, "OVER_LIMIT: OVER_LIMIT 0",
		},
		"more hits than remain":    {[]*ratelimitv3.RateLimitRequest{request(counting(4, m)), request(counting(7, m))}, "OVER_LIMIT: OVER_LIMIT 6"},
		"more hits than the limit": {[]*ratelimitv3.RateLimitRequest{request(counting(math.MaxUint64, m))}, "OVER_LIMIT: OVER_LIMIT 10"},
		"each of two on one counter": {
			[]*ratelimitv3.RateLimitRequest{request(counting(2, m), counting(3, m))}, "OK: OK 5, OK 5",
		},
		"negative hits are refunded": {
			[]*ratelimitv3.RateLimitRequest{request(counting(8, m)), request(refunding(3, m))}, "OK: OK 5",
		},
		"negative hits of the request": {
			[]*ratelimitv3.RateLimitRequest{request(counting(8, m)), ofRequest(2, &descriptorv3.RateLimitDescriptor{
				Entries: describe(m).GetEntries(), IsNegativeHits: true,
			})}, "OK: OK 4",
		},
		"a refund of more than was spent": {
			[]*ratelimitv3.RateLimitRequest{request(counting(8, m)), request(refunding(1000, m))}, "OK: OK 10",
		},
		"a refund of 0 hits": {
			[]*ratelimitv3.RateLimitRequest{request(counting(10, m)), request(refunding(0, m))}, "OK: OK 0",
		},
		"a refund, a peek and hits": {
			[]*ratelimitv3.RateLimitRequest{
				request(counting(10, m), counting(10, "generic_key=n")),
				request(refunding(4, m), counting(0, "tenant=acme"), counting(3, m)),
			}, "OK: OK 4, OK 10, OK 1", // the status of the refund is from before the hits
		},
		"a peek that denies prevents hits and not refunds": {
			[]*ratelimitv3.RateLimitRequest{
				request(counting(10, m), counting(10, "tenant=acme")),
				request(refunding(4, m), counting(0, "tenant=acme"), counting(3, "generic_key=n")),
			}, "OVER_LIMIT: OK 4, OVER_LIMIT 0, OK 10",
		},
		"a peek that passes and hits": {
			[]*ratelimitv3.RateLimitRequest{request(counting(0, "tenant=acme"), counting(3, m)), request(counting(0, m))}, "OK: OK 7",
		},
		"hits and a peek that denies": {
			[]*ratelimitv3.RateLimitRequest{request(counting(10, "tenant=acme")), request(counting(3, m), counting(0, "tenant=acme")), request(counting(0, m))}, "OK: OK 10",
		},
		"only peeks": {
			[]*ratelimitv3.RateLimitRequest{request(counting(4, m)), request(counting(0, m), counting(0, "generic_key=n"))}, "OK: OK 6, OK 10",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := limiterOf(t, per("any", 10, time.Minute, "generic_key"), per("tenant", 10, time.Minute, "tenant"))
			var answer *ratelimitv3.RateLimitResponse
			for _, r := range test.asked {
				var err error
				if answer, err = w.rls.ShouldRateLimit(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			wantSummary(t, answer, test.want)
		})
	}
}

// A report of usage can share a call with a descriptor that is only tested. What was used does not depend on the test.
func TestRateLimit_CountsDebtsAlthoughAPeekDenies(t *testing.T) {
	tokens := per("tokens", 100, time.Minute, "tenant")
	tokens.Debt = true
	w := limiterOf(t, per("any", 1, time.Minute, "generic_key"), tokens)
	w.ask(t, counting(1, "generic_key=m"))
	for _, want := range []string{
		"OVER_LIMIT: OVER_LIMIT 0, OK 60, OK 1", "OVER_LIMIT: OVER_LIMIT 0, OK 20, OK 1", "OVER_LIMIT: OVER_LIMIT 0, OK 0, OK 1",
		"OVER_LIMIT: OVER_LIMIT 0, OVER_LIMIT 0, OK 1",
	} {
		wantSummary(t, w.ask(t, counting(0, "generic_key=m"), counting(40, "tenant=acme"), counting(1, "generic_key=n")), want)
	}
	wantSummary(t, w.ask(t, counting(0, "generic_key=m"), counting(40, "tenant=alone")), "OVER_LIMIT: OVER_LIMIT 0, OK 60")
	wantSummary(t, w.ask(t, refunding(61, "tenant=acme"), counting(0, "tenant=alone")), "OK: OK 1, OK 60") // 160 were counted
}

func TestRateLimit_ARefundIsOKBelowALoweredLimit(t *testing.T) {
	w := limiterOf(t, per("m", 10, time.Minute, "generic_key"))
	w.ask(t, counting(10, "generic_key=m"))
	swap(t, w.engine, per("m", 5, time.Minute, "generic_key"))
	answer := w.ask(t, refunding(1, "generic_key=m"))
	wantSummary(t, answer, "OK: OK 0")
	if fields := answer.GetResponseHeadersToAdd(); len(fields) > 0 {
		t.Errorf("a refund has the headers %v", fields)
	}
	wantSummary(t, w.ask(t, refunding(5, "generic_key=m")), "OK: OK 1")
}

func TestRateLimit_AnOverrideReplacesTheLimitOfThePolicy(t *testing.T) {
	limited := func(units uint32, unit typev3.RateLimitUnit, multiplier uint32) *descriptorv3.RateLimitDescriptor {
		d := describe("tenant=acme")
		d.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: units, Unit: unit}
		if multiplier > 0 {
			d.Limit.UnitMultiplier = wrapperspb.UInt32(multiplier)
		}
		return d
	}
	multiple := func(units uint32, unit typev3.RateLimitUnit, n uint32) *descriptorv3.RateLimitDescriptor {
		d := limited(units, unit, 0)
		d.Limit.UnitMultiplier = wrapperspb.UInt32(n)
		return d
	}
	tests := map[string]struct {
		asked *descriptorv3.RateLimitDescriptor
		want  string // currentLimit
		left  uint32
	}{
		"no override":                       {describe("tenant=acme"), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"another limit":                     {limited(42, typev3.RateLimitUnit_HOUR, 0), `{"name": "shop/t", "requestsPerUnit": 42, "unit": "HOUR"}`, 41},
		"a second":                          {limited(42, typev3.RateLimitUnit_SECOND, 0), `{"name": "shop/t", "requestsPerUnit": 42, "unit": "SECOND"}`, 41},
		"a minute":                          {limited(42, typev3.RateLimitUnit_MINUTE, 1), `{"name": "shop/t", "requestsPerUnit": 42, "unit": "MINUTE"}`, 41},
		"a day":                             {limited(42, typev3.RateLimitUnit_DAY, 0), `{"name": "shop/t", "requestsPerUnit": 42, "unit": "DAY"}`, 41},
		"several of a unit":                 {limited(42, typev3.RateLimitUnit_DAY, 7), `{"name": "shop/t", "requestsPerUnit": 42, "unit": "WEEK"}`, 41},
		"a month is 30 days":                {limited(42, typev3.RateLimitUnit_MONTH, 0), `{"name": "shop/t", "requestsPerUnit": 42, "unit": "MONTH"}`, 41},
		"a year is too long":                {limited(42, typev3.RateLimitUnit_YEAR, 0), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"two months are too long":           {limited(42, typev3.RateLimitUnit_MONTH, 2), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"more months than a Duration holds": {limited(42, typev3.RateLimitUnit_MONTH, math.MaxUint32), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"no days":                           {multiple(42, typev3.RateLimitUnit_DAY, 0), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"no unit":                           {limited(42, typev3.RateLimitUnit_UNKNOWN, 0), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"an unknown unit":                   {limited(42, 99, 0), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"no units":                          {limited(0, typev3.RateLimitUnit_HOUR, 0), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"more units than the maximum":       {limited(math.MaxUint32, typev3.RateLimitUnit_HOUR, 0), `{"name": "shop/t", "requestsPerUnit": 10, "unit": "MINUTE"}`, 8},
		"a denial by the override":          {limited(1, typev3.RateLimitUnit_HOUR, 0), `{"name": "shop/t", "requestsPerUnit": 1, "unit": "HOUR"}`, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := limiterOf(t, per("t", 10, time.Minute, "tenant"))
			w.ask(t, describe("tenant=acme")) // spends on the counter of the policy
			status := w.ask(t, test.asked).GetStatuses()[0]
			wantJSON(t, status.GetCurrentLimit(), test.want)
			if status.GetLimitRemaining() != test.left || status.GetCode() != ratelimitv3.RateLimitResponse_OK {
				t.Errorf("%v with %d remaining, want %d", status.GetCode(), status.GetLimitRemaining(), test.left)
			}
		})
	}
	t.Run("headers report the override", func(t *testing.T) {
		w := limiterOf(t, per("t", 10, time.Minute, "tenant"))
		var got []string
		for _, h := range w.ask(t, limited(42, typev3.RateLimitUnit_HOUR, 0)).GetResponseHeadersToAdd() {
			got = append(got, h.GetKey()+"="+h.GetValue())
		}
		if want := []string{`ratelimit="shop/t";r=41;t=3600`, `ratelimit-policy="shop/t";q=42;w=3600`}; !slices.Equal(got, want) {
			t.Errorf("headers %q, want %q", got, want)
		}
	})
}

func TestUnitOf_ReportsTheWindow(t *testing.T) {
	for window, want := range map[time.Duration][2]string{ // without and with multiples
		time.Second:      {`"unit": "SECOND"`, `"unit": "SECOND"`},
		time.Minute:      {`"unit": "MINUTE"`, `"unit": "MINUTE"`},
		time.Hour:        {`"unit": "HOUR"`, `"unit": "HOUR"`},
		day:              {`"unit": "DAY"`, `"unit": "DAY"`},
		week:             {`"unit": "WEEK"`, `"unit": "WEEK"`},
		month:            {`"unit": "MONTH"`, `"unit": "MONTH"`},
		365 * day:        {`"unit": "YEAR"`, `"unit": "YEAR"`},
		90 * time.Second: {`"unit": "UNKNOWN"`, `"unit": "SECOND", "unitMultiplier": 90`},
		15 * time.Minute: {`"unit": "UNKNOWN"`, `"unit": "MINUTE", "unitMultiplier": 15`},
		12 * time.Hour:   {`"unit": "UNKNOWN"`, `"unit": "HOUR", "unitMultiplier": 12`},
		14 * day:         {`"unit": "UNKNOWN"`, `"unit": "WEEK", "unitMultiplier": 2`},
	} {
		for i, multiplier := range []bool{false, true} {
			t.Run(fmt.Sprint(window, multiplier), func(t *testing.T) {
				c := noon()
				w := serve(t, Options{Engine: newEngine(t, c, per("t", 10, window, "tenant")), UnitMultiplier: multiplier})
				wantJSON(t, w.ask(t, describe("tenant=acme")).GetStatuses()[0].GetCurrentLimit(),
					`{"name": "shop/t", "requestsPerUnit": 10, `+want[i]+`}`)
			})
		}
	}
}

func TestRateLimit_DurationUntilResetDecreases(t *testing.T) {
	w := limiterOf(t, per("m", 2, time.Minute, "generic_key=m"))
	reset := func() time.Duration {
		return w.ask(t, describe("generic_key=m")).GetStatuses()[0].GetDurationUntilReset().AsDuration()
	}
	for _, want := range []time.Duration{time.Minute, 39*time.Second + 500*time.Millisecond, 19 * time.Second, 58*time.Second + 500*time.Millisecond} {
		if got := reset(); got != want {
			t.Errorf("until reset %v, want %v", got, want)
		}
		w.clock.pass(20*time.Second + 500*time.Millisecond)
	}
}

func TestRateLimit_ADenialResetsWhenTheRequestWouldPass(t *testing.T) {
	log := per("log", 2, time.Minute, "generic_key")
	log.Algorithm = limiter.SlidingWindowLog
	w := limiterOf(t, log)
	w.ask(t, describe("generic_key=a"))
	w.clock.pass(15 * time.Second)
	for _, want := range []string{"OK 60s", "OVER_LIMIT 45s"} {
		s := w.ask(t, describe("generic_key=a")).GetStatuses()[0]
		if got := fmt.Sprintf("%v %ds", s.GetCode(), s.GetDurationUntilReset().GetSeconds()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if s := w.ask(t, counting(3, "generic_key=a")).GetStatuses()[0]; s.GetDurationUntilReset().AsDuration() != time.Minute {
		t.Errorf("a request that can never pass: %v", s)
	}
}

func TestRateLimit_StatusReportsTheStrictestPolicy(t *testing.T) {
	w := limiterOf(t, per("a", 100, time.Minute, "tenant"), per("b", 3, time.Hour, "tenant"))
	answer := w.ask(t, describe("tenant=acme"))
	wantJSON(t, answer.GetStatuses()[0], `{"code": "OK", "currentLimit": {"name": "shop/b", "requestsPerUnit": 3, "unit": "HOUR"},
	  "limitRemaining": 2, "durationUntilReset": "3600s"}`)
	if got := answer.GetResponseHeadersToAdd()[0].GetValue(); got != `"shop/b";r=2;t=3600, "shop/a";r=99;t=60` {
		t.Errorf("RateLimit: %s", got)
	}
}

func TestRateLimit_HeadersReportTheStrictestResultOfEachPolicy(t *testing.T) {
	w := limiterOf(t, per("a", 9, time.Minute, "tenant"), per("b", 9, time.Minute, "user"))
	w.ask(t, counting(4, "tenant=acme"))
	answer := w.ask(t, describe("tenant=globex"), describe("user=u1"), describe("tenant=acme"))
	wantSummary(t, answer, "OK: OK 8, OK 8, OK 4")
	if got := answer.GetResponseHeadersToAdd()[0].GetValue(); got != `"shop/a";r=4;t=60, "shop/b";r=8;t=60` {
		t.Errorf("RateLimit: %s", got)
	}
}

func TestRateLimit_AShadowPolicyIsOnlyInMetadata(t *testing.T) {
	shadow := per("dark", 1, time.Minute, "tenant")
	shadow.Shadow = true
	alone := shadow
	alone.Policy, alone.Match.Descriptors, alone.Identifier.Name = "shop/alone", []rules.DescriptorMatch{{Key: "user"}}, "user"
	w := limiterOf(t, alone, shadow, per("light", 5, time.Minute, "tenant"))
	w.ask(t, describe("tenant=acme"), describe("user=u1"))
	answer := w.ask(t, describe("tenant=acme"), describe("user=u1"))
	wantSummary(t, answer, "OK: OK 3, OK -")
	wantJSON(t, answer.GetDynamicMetadata(), `{"source": "memory", "revision": "sha256:1", "descriptors": [
	  {"result": "OK", "policies": [{"policy": "shop/light", "result": "OK"}, {"policy": "shop/dark", "result": "OVER_LIMIT", "shadow": true}]},
	  {"result": "OK", "policies": [{"policy": "shop/alone", "result": "OVER_LIMIT", "shadow": true}]}]}`)
	if got := answer.GetResponseHeadersToAdd()[0].GetValue(); got != `"shop/light";r=3;t=60` {
		t.Errorf("RateLimit: %s", got)
	}
}

func TestRateLimit_MetadataHasTheTierAndNoSecrets(t *testing.T) {
	tiered := per("keys", 1, time.Minute, "api_key")
	tiered.Identifier.Secret = true
	tiered.Tiers = []rules.Tier{
		{Name: "paid", When: rules.When{Identifiers: []string{testHashKey().Hash("s3cret")}}, Units: 5},
		{Name: "free", When: rules.When{Identifiers: []string{testHashKey().Hash("fr33")}}, Unlimited: true},
	}
	w := limiterOf(t, tiered)
	wantJSON(t, w.ask(t, describe("api_key=s3cret")), `{
	  "overallCode": "OK",
	  "statuses": [{"code": "OK", "currentLimit": {"name": "shop/keys", "requestsPerUnit": 5, "unit": "MINUTE"}, "limitRemaining": 4, "durationUntilReset": "60s"}],
	  "responseHeadersToAdd": [{"key": "ratelimit", "value": "\"shop/keys\";r=4;t=60"}, {"key": "ratelimit-policy", "value": "\"shop/keys\";q=5;w=60"}],
	  "dynamicMetadata": {"descriptors": [{"result": "OK", "policies": [{"policy": "shop/keys", "result": "OK", "tier": "paid"}]}],
	                      "source": "memory", "revision": "sha256:1"}}`)
	wantJSON(t, w.ask(t, describe("api_key=fr33")), `{"overallCode": "OK", "statuses": [{"code": "OK"}]}`)
}

func TestRateLimit_ReadsTheClientAddressFromTheDescriptor(t *testing.T) {
	ip := per("ip", 3, time.Minute, "remote_address")
	ip.Axis, ip.Identifier = "IP", rules.Identifier{From: rules.FromClientIP}
	ip.Match = rules.Match{}
	ip.Tiers = []rules.Tier{{Name: "own", When: rules.When{CIDRs: []string{"10.0.0.0/8"}}, Unlimited: true}}
	w := limiterOf(t, ip)
	for _, step := range []struct{ text, want string }{
		{"generic_key=a remote_address=203.0.113.7", "OK: OK 2"},
		{"remote_address=203.0.113.7", "OK: OK 1"},
		{"remote_address=203.0.113.8", "OK: OK 2"},
		{"remote_address=10.0.0.1", "OK: OK -"},
		{"remote_address=invalid", "OK: OK 2"}, // unreadable
		{"generic_key=a", "OK: OK 2"},          // missing
		{"remote_address=", "OK: OK 1"},        // missing
		{"remote_address=203.0.113.7:80", "OK: OK 0"},
		{"remote_address=[::ffff:203.0.113.7]:80", "OVER_LIMIT: OVER_LIMIT 0"},
		{"remote_address=64:ff9b::203.0.113.7", "OVER_LIMIT: OVER_LIMIT 0"},
		{"remote_address=64:ff9b::203.0.113.8", "OK: OK 1"},
		{"remote_address=64:ff9b::203.0.113.9", "OK: OK 2"},
	} {
		wantSummary(t, w.ask(t, describe(step.text)), step.want)
	}
}

func TestRateLimit_DeniesARequestWithADelay(t *testing.T) {
	leaky := per("drip", 60, time.Minute, "generic_key")
	leaky.Algorithm, leaky.Burst = limiter.LeakyBucket, 5
	w := limiterOf(t, leaky)
	wantSummary(t, w.ask(t, describe("generic_key=a")), "OK: OK 0")
	wantSummary(t, w.ask(t, describe("generic_key=a")), "OVER_LIMIT: OVER_LIMIT 0")
	w.clock.pass(time.Second)
	wantSummary(t, w.ask(t, describe("generic_key=a")), "OK: OK 0")
}

func TestRateLimit_AllowsRequestsWithoutAPolicy(t *testing.T) {
	w := limiterOf(t, per("a", 1, time.Minute, "tenant"))
	for _, r := range []*ratelimitv3.RateLimitRequest{
		{Domain: "nowhere", Descriptors: []*descriptorv3.RateLimitDescriptor{describe("tenant=acme"), describe("a=b")}},
		request(describe("unheard=of"), describe("a=b")),
	} {
		answer, err := w.rls.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		wantJSON(t, answer, `{"overallCode": "OK", "statuses": [{"code": "OK"}, {"code": "OK"}]}`)
	}
}

func TestRateLimit_WritesEachHeaderStyle(t *testing.T) {
	for style, want := range map[reply.Style]string{
		reply.NoHeaders:         "",
		reply.XRateLimitHeaders: `x-ratelimit-limit=5, 5;w=60;name="shop/a" x-ratelimit-remaining=4 x-ratelimit-reset=60`,
		reply.RateLimitHeaders:  `ratelimit="shop/a";r=4;t=60 ratelimit-policy="shop/a";q=5;w=60`,
	} {
		t.Run(string(style), func(t *testing.T) {
			w := serve(t, Options{Engine: newEngine(t, noon(), per("a", 5, time.Minute, "tenant")), Style: style})
			var fields []string
			for _, h := range w.ask(t, describe("tenant=acme")).GetResponseHeadersToAdd() {
				fields = append(fields, h.GetKey()+"="+h.GetValue())
			}
			if got := strings.Join(fields, " "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestServer_DecidesWithoutHeadersThatCannotBeFormatted: a rule set from a file can have a policy name that is not ASCII, which no header
// can hold.
func TestServer_DecidesWithoutHeadersThatCannotBeFormatted(t *testing.T) {
	foreign, web := per("ä", 1, time.Minute, "tenant"), search()
	web.Policy, web.Units = "shop/ö", 1
	var log strings.Builder
	w := serve(t, Options{
		Engine: newEngine(t, noon(), foreign, web), Style: reply.RateLimitHeaders, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	answer := w.ask(t, describe("tenant=acme"))
	wantSummary(t, answer, "OK: OK 0")
	checked := w.check(t, attributes("GET", "/v1/search"))
	if len(answer.GetResponseHeadersToAdd())+len(checked.GetOkResponse().GetResponseHeadersToAdd()) > 0 {
		t.Errorf("headers %v and %v", answer, checked)
	}
	wantSummary(t, w.ask(t, describe("tenant=acme")), "OVER_LIMIT: OVER_LIMIT 0")
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.String(), "a response has no rate-limit headers"); got != 3 {
		t.Errorf("%d warnings, want 3:\n%s", got, &log)
	}
}

func TestClampUint32_Saturates(t *testing.T) {
	for n, want := range map[int64]uint32{-1: 0, 0: 0, math.MaxUint32: math.MaxUint32, math.MaxUint32 + 1: math.MaxUint32, math.MaxInt64: math.MaxUint32} {
		if got := clampUint32(n); got != want {
			t.Errorf("%d becomes %d, want %d", n, got, want)
		}
	}
}
