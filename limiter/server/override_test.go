package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/engine"
)

func TestDecode_Override(t *testing.T) {
	for text, want := range map[string]struct {
		override *engine.Override
		defects  []string
		problem  string
	}{
		`{"limit":5,"windowMs":60000}`:                   {override: &engine.Override{Units: 5, Window: time.Minute}},
		`{"windowMs":1000,"withoutCost":true,"limit":1}`: {override: &engine.Override{Units: 1, Window: time.Second, WithoutCost: true}},
		`null`:                                            {},
		`{"limit":0,"windowMs":60000}`:                    {defects: []string{"limit"}},
		`{"limit":-1,"windowMs":60000}`:                   {defects: []string{"limit"}},
		`{"limit":1.5,"windowMs":60000}`:                  {defects: []string{"limit"}},
		`{"limit":99999999999999999999,"windowMs":60000}`: {defects: []string{"limit"}},
		`{"limit":5,"windowMs":0}`:                        {defects: []string{"limit"}},
		`{"limit":5,"windowMs":1500}`:                     {defects: []string{"limit"}},
		`{"limit":5,"windowMs":99999999999999999999}`:     {defects: []string{"limit"}},
		`{"limit":5}`:                                     {problem: "override.windowMs is missing"},
		`{"windowMs":60000}`:                              {problem: "override.limit is missing"},
		`{"limit":"5","windowMs":60000}`:                  {problem: "override.limit must be a number, not a string"},
		`{"limit":5,"windowMs":null}`:                     {problem: "override.windowMs must be a number, not null"},
		`{"limit":5,"limit":6,"windowMs":60000}`:          {problem: "override.limit is present more than once"},
		`{"limit":5,"windowMs":60000,"units":1}`:          {problem: "override.units is not a field of an override; the fields are limit, windowMs, withoutCost"},
		`{"limit":5,"windowMs":60000,"withoutCost":1}`:    {problem: "override.withoutCost must be true or false, not a number"},
		`[5]`: {problem: "override must be an object, not a list"},
		`{"limit":5,"windowMs":60000,"` + strings.Repeat("x", 999) + `":1}`: {problem: "override." + strings.Repeat("x", 64) + "… is not a field of an override; the fields are limit, windowMs, withoutCost"},
	} {
		check, defects, bad := decode([]byte(`{"domain":"shop","path":"/","override":` + text + `}`))
		problem := ""
		if bad != nil {
			problem = bad.Detail
		}
		if problem != want.problem || want.problem == "" && (!cmp.Equal(check.Override, want.override) || !cmp.Equal(defects, want.defects)) {
			t.Errorf("%.60s: %+v, defects %q, problem %q, want %+v", text, check.Override, defects, problem, want)
		}
	}
}

// What a token of the client makes of the override cannot make a call fail, and the limit of the policy remains.
func TestCheck_AnOverrideReplacesTheLimitOfThePolicy(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 3)))
	for _, step := range []struct {
		limit  string
		status int
	}{{"5", 200}, {"2", 200}, {"2", 429}, {"4", 200}, {"0", 200}, {"0", 200}, {"0", 200}, {"0", 429}, {"4", 200}, {"4", 429}} {
		body := strings.Replace(acme, `{`, `{"override":{"limit":`+step.limit+`,"windowMs":3600000},`, 1)
		if w := post(h, body); w.Code != step.status || (step.limit == "0") != strings.Contains(w.Body.String(), `"defects":["limit"]`) {
			t.Errorf("limit %s: status %d, %s, want %d", step.limit, w.Code, w.Body, step.status)
		}
	}
	if w := post(h, strings.Replace(acme, `{`, `{"override":7,`, 1)); w.Code != http.StatusBadRequest {
		t.Errorf("status %d of an invalid field", w.Code)
	}
}
