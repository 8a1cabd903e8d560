package adminproxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const aReset = `{"policy":"shop/daily","identifier":"acme","reason":"INC-1"}`

// events returns the notes of all events, with the kind and the name of the object, sorted.
func (h *harness) events() (notes []string) {
	h.Helper()
	var list eventsv1.EventList
	if err := h.kube.List(context.Background(), &list); err != nil {
		h.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		notes = append(notes, fmt.Sprintf("%s %s/%s: %s", e.Regarding.Kind, e.Namespace, e.Regarding.Name, e.Note))
	}
	slices.Sort(notes)
	return notes
}

// replica starts a replica that answers with a status and a body, and sends the bodies of requests to got.
func (h *harness) replica(status int, body string) (got *[]string) {
	got = new([]string)
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			h.Error(err)
		}
		*got = append(*got, string(text))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	return got
}

func newResetHarness(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t)
	h.allowed["jane create limiters.weir.dev/resets of edge/main"] = true
	return h
}

func TestParseReset_ForwardsOnlyWhatIsRecorded(t *testing.T) {
	h := newResetHarness(t)
	got := h.replica(200, `{"identifier":"acme","counters":[]}`)
	for _, body := range []string{aReset + " .", aReset + aReset, aReset + "]", `{"policies":"shop/daily","identifier":"acme","reason":"x"}`, "", `{"identifier":1}`} {
		status, text := h.call("jane", "POST", "edge/main/counters/reset", body)
		if status != 400 || !strings.Contains(text, "the body is invalid") || len(*got) > 0 {
			t.Errorf("%s: %d %s, forwarded %q", body, status, text, *got)
		}
	}
	status, text := h.call("jane", "POST", "edge/main/counters/reset",
		` {"dryRun":true,"policy":"a","Policy":"shop/daily","identifier":"acme","reason":"x","id":"1","DRYRUN":false} `)
	want := []string{`{"policy":"shop/daily","identifier":"acme","reason":"x","id":"1"}`}
	if e := h.events(); status != 200 || !slices.Equal(*got, want) || len(e) != 1 {
		t.Errorf("%d %s: forwarded %q, events %q", status, text, *got, e)
	}
}

func TestRecordReset_WhenTheCallerDisconnects(t *testing.T) {
	h := newResetHarness(t)
	ctx, disconnect := context.WithCancel(t.Context())
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil { // the server notices a closed connection when the body was read
			t.Error(err)
		}
		disconnect()
		_, _ = io.WriteString(w, `{"identifier":"acme","counters":[]}`)
	})
	r := httptest.NewRequest(http.MethodPost, "/admin/v1/limiters/edge/main/counters/reset", strings.NewReader(aReset)).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer jane")
	h.handler.ServeHTTP(httptest.NewRecorder(), r)
	want := []string{`RateLimitPolicy shop/daily: User "jane" reset the counters of identifier "acme" on 1 of 1 replicas of Limiter edge/main: INC-1`}
	if e := h.events(); !slices.Equal(e, want) || !strings.Contains(h.log.String(), "caller=jane") {
		t.Errorf("events %q, log %q", e, h.log.String())
	}
}

func TestRecordReset_WithoutAConfirmation(t *testing.T) {
	const none = "0 of 1 replicas of Limiter edge/main confirmed: INC-1"
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"no answer":    {200, "cut", none},
		"an error":     {503, `{"detail":"may not be reset"}`, none},
		"not reset":    {404, `{"detail":"the policy does not exist"}`, ""},
		"unreadable":   {200, `[]`, none},
		"other status": {304, `{}`, none},
	} {
		t.Run(name, func(t *testing.T) {
			h := newResetHarness(t)
			h.replica(test.status, test.body)
			h.call("jane", "POST", "edge/main/counters/reset", aReset)
			e := h.events()
			isRecorded := len(e) == 1 && test.want != "" && strings.HasPrefix(e[0], "RateLimitPolicy shop/daily: ") && strings.HasSuffix(e[0], test.want)
			if !isRecorded && (test.want != "" || len(e) > 0) || strings.Count(h.log.String(), "counters reset") != 1 {
				t.Errorf("events %q, log %q", e, h.log.String())
			}
		})
	}
}

func TestRecordReset_OnTheLimiterIfNoPolicyHasUsedUnits(t *testing.T) {
	for _, counters := range []string{``, `{"policy":"none/none","identifier":"acme"}`} {
		h := newResetHarness(t)
		h.replica(200, `{"counters":[`+counters+`]}`)
		h.call("jane", "POST", "edge/main/counters/reset", `{"allPolicies":true,"identifier":"acme","reason":"INC-1"}`)
		want := []string{`Limiter edge/main: User "jane" reset the counters of an identifier on 1 of 1 replicas of Limiter edge/main: INC-1`}
		if e := h.events(); !slices.Equal(e, want) || !strings.Contains(h.log.String(), "caller=jane") {
			t.Errorf("events %q, log %q", e, h.log.String())
		}
	}
}

// A replica can be compromised: it must not write events of others in the name of the user.
func TestRecordReset_LimitsWhatReplicasReport(t *testing.T) {
	h := newResetHarness(t)
	var counters []string
	for i := range 300 {
		p := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i), Name: "p"}}
		if err := h.kube.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		counters = append(counters, fmt.Sprintf(`{"policy":"team-%d/p","identifier":"forged"}`, i))
	}
	h.replica(200, `{"identifier":"acme","counters":[`+strings.Join(counters, ",")+`]}`)
	h.call("jane", "POST", "edge/main/counters/reset", aReset)
	if e := h.events(); len(e) != 1 || !strings.HasPrefix(e[0], "RateLimitPolicy shop/daily: ") {
		t.Errorf("%d events for a reset of one policy: %q", len(e), e)
	}
	h.log.Reset()
	h.call("jane", "POST", "edge/main/counters/reset", `{"allPolicies":true,"identifier":"acme","reason":"INC-1"}`)
	if n := len(h.events()); n != 101 || strings.Count(h.log.String(), "counters reset") != 101 || !strings.Contains(h.log.String(), "withoutEvent=200") {
		t.Errorf("%d events, log %s", n-1, h.log.String())
	}
}
