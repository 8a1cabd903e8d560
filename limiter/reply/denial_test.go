package reply

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// denying returns the result of a denial by a policy with the response d.
func denying(t *testing.T, name string, d *rules.Denial) engine.Result {
	t.Helper()
	r := tenantRule(name, 1)
	r.Denial = d
	return decided(t, r, limiter.Decision{RetryAfter: 20 * time.Second})
}

const overA = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
	`"detail":"over the limit of shop/a; retry in 20 s","violated-policies":["shop/a"]}` + "\n"

func TestDenial_IsTheResponseOfThePolicy(t *testing.T) {
	page := rules.DenialHeader{Name: "x-reason", Value: "plan"}
	problem := http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"20"}}
	notStored := http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"20"}, "Cache-Control": {"no-store"}}
	for name, test := range map[string]struct {
		denial *rules.Denial
		status int
		header http.Header
		body   string
	}{
		"none": {nil, 429, problem, overA},
		"a status": {
			&rules.Denial{Status: 503}, 503, notStored,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":503,` +
				`"detail":"over the limit of shop/a; retry in 20 s","violated-policies":["shop/a"]}` + "\n",
		},
		"a header": {
			&rules.Denial{Headers: []rules.DenialHeader{page}}, 429,
			http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"20"}, "Cache-Control": {"no-store"}, "X-Reason": {"plan"}},
			overA,
		},
		"a message": {
			&rules.Denial{Status: 404, Message: "<b>no</b>"}, 404,
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Retry-After": {"20"}, "Cache-Control": {"no-store"}},
			"<b>no</b>",
		},
		"all fields": {
			&rules.Denial{Status: 402, Message: "{}", ContentType: "application/json", Headers: []rules.DenialHeader{page}}, 402,
			http.Header{"Content-Type": {"application/json"}, "Retry-After": {"20"}, "Cache-Control": {"no-store"}, "X-Reason": {"plan"}},
			"{}",
		},
	} {
		answer := engine.Answer{Results: []engine.Result{denying(t, "a", test.denial)}}
		w := httptest.NewRecorder()
		if err := NoHeaders.SetHeaders(w.Header(), &answer, epoch()); err != nil {
			t.Fatal(err)
		}
		d := NewDenial(&answer)
		d.Write(w)
		if diff := cmp.Diff(test.header, w.Header()); w.Code != test.status || w.Body.String() != test.body || diff != "" {
			t.Errorf("%s: status %d, body %s, headers (-want +got):\n%s", name, w.Code, w.Body, diff)
		}
	}
}

// If several policies deny, the response is that of the strictest one, also if only another one sets a response.
func TestDenial_IsThatOfThePolicyThatDecides(t *testing.T) {
	custom := &rules.Denial{Status: 403}
	shadow := denying(t, "s", custom)
	shadow.Rule.Shadow = true
	for name, test := range map[string]struct {
		answer engine.Answer
		want   int
	}{
		"the first":                {engine.Answer{Results: []engine.Result{denying(t, "a", custom), denying(t, "b", nil)}}, 403},
		"the first sets none":      {engine.Answer{Results: []engine.Result{denying(t, "a", nil), denying(t, "b", custom)}}, 429},
		"a shadow policy":          {engine.Answer{Results: []engine.Result{shadow}}, 429},
		"a denial without results": {engine.Answer{}, 429},
	} {
		if d := NewDenial(&test.answer); d.Status != test.want {
			t.Errorf("%s: status %d, want %d", name, d.Status, test.want)
		}
	}
	allowed := engine.Answer{Allowed: true, Results: []engine.Result{decided(t, denying(t, "a", custom).Rule.Rule, limiter.Decision{Allowed: true})}}
	if got := NewAnswer(&allowed).Denial; got != nil {
		t.Errorf("an allowed request has the response %+v", got)
	}
}

func TestReadAnswer_IgnoresADenialThatItCannotSend(t *testing.T) {
	for text, want := range map[string]int{
		`{"allowed":false,"results":[{"policy":"a"}],"denial":{"status":403}}`:                                        403,
		`{"allowed":false,"results":[{"policy":"a"}],"denial":{"status":99}}`:                                         429,
		`{"allowed":false,"results":[{"policy":"a"}],"denial":{"status":403,"headers":[{"name":"a b","value":"c"}]}}`: 429,
		`{"allowed":false,"results":[],"denial":{"status":403}}`:                                                      429,
		`{"allowed":true,"results":[{"policy":"a","allowed":true}],"denial":{"status":403}}`:                          429,
	} {
		a, err := ReadAnswer([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := NewDenial(&a); d.Status != want {
			t.Errorf("%s: status %d, want %d", text, d.Status, want)
		}
	}
}

func TestDenial_AllocatesAsMuchAsAProblemWithoutAResponse(t *testing.T) {
	answer := engine.Answer{Results: []engine.Result{denying(t, "a", nil)}}
	var body []byte
	var fields []Field
	problem := testing.AllocsPerRun(100, func() { body = Denied(&answer).AppendJSON(body[:0]) })
	denial := testing.AllocsPerRun(100, func() {
		d := NewDenial(&answer)
		fields, body = d.AppendFields(fields[:0]), d.AppendBody(body[:0])
	})
	if denial > problem {
		t.Errorf("%v allocations, want at most %v", denial, problem)
	}
}
