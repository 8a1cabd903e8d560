package reply

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

func TestProblem_WritesStatusHeadersAndBody(t *testing.T) {
	denied := limiter.Decision{RetryAfter: 20*time.Second + time.Microsecond}
	answer := engine.Answer{Results: []engine.Result{
		decided(t, tenantRule("b", 5), denied), decided(t, tenantRule("c", 5), denied),
		decided(t, tenantRule("a", 9), limiter.Decision{Allowed: true}), decided(t, shadowRule("d"), denied),
	}}
	never := engine.Answer{Results: []engine.Result{decided(t, tenantRule("b", 5), limiter.Decision{RetryAfter: limiter.Never})}}
	blocked := engine.Answer{Results: []engine.Result{decided(t, tenantRule("b", 0), limiter.Decision{RetryAfter: limiter.Never})}}
	const reduced = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Temporary Reduced Capacity","status":503,`
	tests := map[string]struct {
		problem *Problem
		want    string
	}{
		"a denial lists the enforced policies that deny": {
			Denied(&answer),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
				`"detail":"over the limit of shop/b, shop/c; retry in 21 s","violated-policies":["shop/b","shop/c"]}`,
		},
		"a denial states that no retry can succeed": {
			Denied(&never),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
				`"detail":"over the limit of shop/b; the request costs more than the limit, so a retry cannot succeed","violated-policies":["shop/b"]}`,
		},
		"a denial by a limit of 0": {
			Denied(&blocked),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
				`"detail":"over the limit of shop/b; the limit is 0, so every request is denied","violated-policies":["shop/b"]}`,
		},
		"a policy that denies without its counters": {
			Unavailable(&engine.RefusedError{Policy: "shop/a"}),
			reduced + `"detail":"policy shop/a denies requests while its counters are unavailable"}`,
		},
		"an overloaded process": {
			Unavailable(fmt.Errorf("spend: %w", limiter.ErrOverloaded)), reduced + `"detail":"this limiter is overloaded; the request was not counted"}`,
		},
		"without rules": {Unavailable(engine.ErrNoRules), reduced + `"detail":"no rules are loaded yet; see /readyz for the reason"}`},
		"an error of the store, whose text may contain addresses": {
			Unavailable(errors.New("dial 10.0.0.7")),
			reduced + `"detail":"the counters are unavailable; the request may or may not have been counted"}`,
		},
		"an invalid field": {
			NewProblem(http.StatusBadRequest, "cost", "cost must be a number"),
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"cost must be a number","field":"cost"}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			test.problem.Write(w)
			if diff := cmp.Diff(test.want+"\n", w.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if w.Code != test.problem.Status || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("status %d, %v", w.Code, w.Header())
			}
			if retryAfter := w.Header().Get("Retry-After"); (retryAfter == "1") != (w.Code == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After %q with status %d", retryAfter, w.Code)
			}
		})
	}
}
