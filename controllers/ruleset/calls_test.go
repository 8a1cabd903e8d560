package ruleset

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// calls counts the requests to the API server, except watches, for example "PATCH ratelimitpolicies/daily/status".
type calls struct {
	http.RoundTripper

	mu    sync.Mutex
	count map[string]int
}

func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	if !r.URL.Query().Has("watch") {
		path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		what := path[len(path)-1]
		for i, part := range path {
			if part == "namespaces" && i+2 < len(path) {
				what = strings.Join(path[i+2:], "/")
			}
		}
		c.mu.Lock()
		c.count[r.Method+" "+what]++
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(r)
}

// take returns the counts and resets them.
func (c *calls) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.count
	c.count = map[string]int{}
	return taken
}

// The controllers run with 50 policies and two replicas. Every request to the API server is counted.
func TestSetupWithManager_CallsTheAPIServerOncePerChange(t *testing.T) {
	h := newHarness(t)
	const (
		policies = 12
		resync   = 200 * time.Millisecond
		settled  = 500 * time.Millisecond // after it, nothing is pending
	)
	for i := range policies {
		h.createPolicy(fmt.Sprintf("p%02d", i), nil)
	}
	counted := &calls{count: map[string]int{}}
	h.manage(resync, func(next http.RoundTripper) http.RoundTripper {
		counted.RoundTripper = next
		return counted
	})
	beating := func(then func() bool) func() bool {
		return func() bool {
			if revision := h.activeRevision(); revision != "" {
				h.heartbeat(revision, "a", "b")
			}
			return then()
		}
	}
	ready := func(name string, generation int64) func() bool {
		return beating(func() bool {
			s := h.policy(name).Status
			return s.ObservedGeneration == generation && len(s.Conditions) == 4 && s.Conditions[3].Status == yes
		})
	}
	for i := range policies {
		fixture.Await(h, "all policies are Ready", ready(fmt.Sprintf("p%02d", i), 1))
	}
	h.keepBeating(beating, settled)
	counted.take()

	const resyncs = 5
	h.keepBeating(beating, resyncs*resync)
	if got := counted.take(); got["GET configmaps/weir-rules-default"] > resyncs+1 || len(got) > 1 {
		t.Errorf("calls in %d resyncs while nothing changes: %v, want reads of the snapshot only", resyncs, got)
	}

	h.editPolicy("p07", limit(7))
	fixture.Await(h, "the edit is Ready", ready("p07", 2))
	h.keepBeating(beating, settled)
	got := counted.take()
	delete(got, "GET configmaps/weir-rules-default")
	statuses := got["PATCH ratelimitpolicies/p07/status"]
	if statuses < 1 || statuses > 3 { // published, perhaps one replica before the other, both
		t.Errorf("%d writes of the status of the edited policy, want 1 to 3", statuses)
	}
	got["PATCH ratelimitpolicies/p07/status"] = 1
	if n := got["PATCH limiters/default/status"]; n < 1 || n > 3 { // the revision, and how many replicas enforce it
		t.Errorf("%d writes of the status of the Limiter, want 1 to 3", n)
	}
	got["PATCH limiters/default/status"] = 1
	want := map[string]int{
		"PATCH ratelimitpolicies/p07/status":  1,
		"PATCH limiters/default/status":       1,
		"PATCH configmaps/weir-rules-default": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls of one edit (-want +got):\n%s", diff)
	}
	if c := h.policy("p07").Status.Conditions; c[3].Type != v1alpha1.ConditionReady {
		t.Errorf("conditions %v", c)
	}
}

// keepBeating waits while the replicas send heartbeats and nothing else changes.
func (h *harness) keepBeating(beating func(func() bool) func() bool, duration time.Duration) {
	h.Helper()
	until := time.Now().Add(duration)
	fixture.Await(h, "time passes", beating(func() bool { return time.Now().After(until) }))
}
