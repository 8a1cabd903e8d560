package adminproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

// A replica that answers with an error of the client has changed nothing. After any other answer, it can have made the change.
func TestRecords_AreRejectedIfAllReplicasAnswerWithAnErrorOfTheClient(t *testing.T) {
	for _, test := range []struct {
		statuses []int
		want     bool
	}{
		{[]int{400}, true},
		{[]int{499}, true},
		{[]int{404, 409}, true},
		{[]int{399}, false},
		{[]int{500}, false},
		{[]int{0}, false},
		{[]int{404, 500}, false},
		{[]int{200, 404}, false},
	} {
		reset, bypass := newResetRecord(adminapi.ResetRequest{Policy: "a/b"}), &bypassRecord{rejected: true}
		for _, status := range test.statuses {
			reset.add(&proxyapi.Replica{Status: status})
			bypass.add(&proxyapi.Replica{Status: status})
		}
		if reset.rejected != test.want || bypass.rejected != test.want {
			t.Errorf("%v: reset %v, bypass %v, want %v", test.statuses, reset.rejected, bypass.rejected, test.want)
		}
		if n := len(test.statuses); reset.replicas != n || bypass.replicas != n || bypass.done != 0 {
			t.Errorf("%v: %+v and %+v", test.statuses, reset, bypass)
		}
	}
}

func TestResetRecord_KeepsTheIdentifierThatAReplicaReports(t *testing.T) {
	r := newResetRecord(adminapi.ResetRequest{Policy: "a/b"})
	for _, body := range []string{`{"identifier":"hash:77"}`, `{}`} {
		r.add(&proxyapi.Replica{Status: 200, Body: json.RawMessage(body)})
	}
	if r.identifiers["a/b"] != "hash:77" || r.done != 2 {
		t.Errorf("%+v", r)
	}
}

func TestResetRecord_BoundsWhatReplicasReport(t *testing.T) {
	r := newResetRecord(adminapi.ResetRequest{AllPolicies: true})
	counters := func(list ...string) *proxyapi.Replica {
		return &proxyapi.Replica{Status: 200, Body: json.RawMessage(`{"counters":[` + strings.Join(list, ",") + `]}`)}
	}
	r.add(counters(`{"policy":"first","identifier":"` + strings.Repeat("x", maxReported-len("first")-len("last")-2) + `"}`))
	r.add(counters(`{"policy":"last","identifier":"id"}`, `{"policy":"more","identifier":""}`, `{"policy":"","identifier":""}`))
	if len(r.identifiers) != 2 || r.identifiers["last"] != "id" {
		t.Errorf("%d policies are recorded, want those of %d bytes", len(r.identifiers), maxReported)
	}
	if r.done != 2 {
		t.Errorf("%d replicas have reset the counters, want 2", r.done)
	}
}

func TestRecordReset_OnTheLimiterIfThePolicyDoesNotExist(t *testing.T) {
	h := newResetHarness(t)
	h.replica(200, `{"identifier":"acme"}`)
	h.call("jane", "POST", "edge/main/counters/reset", `{"policy":"shop/deleted","identifier":"acme","reason":"INC-1"}`)
	want := []string{`Limiter edge/main: User "jane" reset the counters of an identifier on 1 of 1 replicas of Limiter edge/main: INC-1`}
	if e := h.events(); !slices.Equal(e, want) {
		t.Errorf("events %q, want %q", e, want)
	}
}

func TestRecordReset_ARejectedResetOfAllPoliciesIsLoggedWithoutAnEvent(t *testing.T) {
	h := newResetHarness(t)
	h.replica(404, `{}`)
	h.call("jane", "POST", "edge/main/counters/reset", `{"allPolicies":true,"identifier":"acme","reason":"INC-1"}`)
	if e := h.events(); len(e) > 0 || strings.Count(h.log.String(), "counters reset") != 1 || !strings.Contains(h.log.String(), "rejected=true") {
		t.Errorf("events %q, log %s", e, h.log.String())
	}
}

// failingWriter is the response of a user who has closed the connection.
type failingWriter struct{ *httptest.ResponseRecorder }

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

// A read for a user who has left calls no more replicas. A change calls all of them, and all are recorded.
func TestForward_AUserWhoHasLeft(t *testing.T) {
	const replicas = maxConnections + 8
	h := newResetHarness(t)
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	var calls atomic.Int32
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = io.WriteString(w, `{"identifier":"acme"}`)
	})
	var first corev1.PodList
	if err := h.kube.List(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	for range replicas - 1 {
		h.pod(func(p *corev1.Pod) {
			p.Status.PodIP, p.Spec.Containers[0].Ports = first.Items[0].Status.PodIP, first.Items[0].Spec.Containers[0].Ports
		}, nil)
	}
	call := func(method, path, body string) {
		r := httptest.NewRequest(method, proxyapi.Prefix+"edge/main/"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer jane")
		h.handler.ServeHTTP(failingWriter{httptest.NewRecorder()}, r)
	}
	if call("GET", "rules", ""); calls.Load() > maxConnections {
		t.Errorf("%d replicas are called", calls.Load())
	}
	call("POST", "counters/reset", aReset)
	if e, want := strings.Join(h.events(), ""), fmt.Sprintf("on %d of %d replicas", replicas, replicas); !strings.Contains(e, want) {
		t.Errorf("event %q, want %q", e, want)
	}
}

func TestClip_KeepsTextsOf100Bytes(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{strings.Repeat("x", 100), strings.Repeat("x", 100)},
		{strings.Repeat("x", 101), strings.Repeat("x", 100) + "…"},
		{strings.Repeat("x", 99) + "ü", strings.Repeat("x", 99) + "…"},
	} {
		if got := clip(test.text); got != test.want {
			t.Errorf("%d bytes: %q", len(test.text), got)
		}
	}
}
