package reply

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

func TestProblems(t *testing.T) {
	denied := limiter.Decision{RetryAfter: 20*time.Second + time.Microsecond}
	answer := engine.Answer{Results: []engine.Result{
		decided(t, tenantRule("b", 5), denied), decided(t, tenantRule("c", 5), denied),
		decided(t, tenantRule("a", 9), limiter.Decision{Allowed: true}), decided(t, shadowRule("d"), denied),
	}}
	never := engine.Answer{Results: []engine.Result{decided(t, tenantRule("b", 5), limiter.Decision{RetryAfter: limiter.Never})}}
	const reduced = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Temporary Reduced Capacity","status":503,`
	tests := map[string]struct {
		problem *Problem
		want    string
	}{
		"a denial names the policies that denied, shadows never": {
			Denied(&answer),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
				`"detail":"over the limit of shop/b, shop/c; retry in 21 s","violated-policies":["shop/b","shop/c"]}`,
		},
		"a denial that no wait mends says so": {
			Denied(&never),
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
				`"detail":"over the limit of shop/b; the request costs more than is ever allowed at once","violated-policies":["shop/b"]}`,
		},
		"a policy that denies without its counters is named": {
			Unavailable(&engine.RefusedError{Policy: "shop/a"}),
			reduced + `"detail":"policy shop/a denies while its counters cannot be reached"}`,
		},
		"without rules": {Unavailable(engine.ErrNoRules), reduced + `"detail":"there are no rules yet; /readyz says why"}`},
		"an error of the store's is not told, it may name addresses": {
			Unavailable(errors.New("dial 10.0.0.7")),
			reduced + `"detail":"the counters cannot be reached; whether the request was counted is not known"}`,
		},
		"a field that is wrong": {
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
			if patience := w.Header().Get("Retry-After"); (patience == "1") != (w.Code == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After %q with status %d", patience, w.Code)
			}
		})
	}
}
