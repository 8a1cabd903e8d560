package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
)

const laxSpec = `{axis: User, limit: 20, window: 1m}`

func cacheWith(policies ...v1alpha1.RateLimitPolicy) *fakeCache {
	c := newFakeCache()
	for i := range policies {
		c.put(&policies[i])
	}
	return c
}

func TestIndex_ValidatesAloneUntilTheCacheHasDeliveredItsObjects(t *testing.T) {
	c := cacheWith(of(t, "shop", "strict", 1, validSpec))
	c.delivered = make(chan struct{})
	v := rateLimitPolicies(c.index())
	lax, invalid := of(t, "shop", "lax", 0, laxSpec), of(t, "shop", "invalid", 0, invalidSpec)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if warnings, err := v.ValidateCreate(short, &lax); err != nil || len(warnings) != 1 || warnings[0] != warnOthersUnavailable {
		t.Errorf("error %v, warnings %q", err, warnings)
	}
	if _, err := v.ValidateCreate(short, &invalid); err == nil {
		t.Error("an invalid policy is accepted")
	}
	waiting := make(chan []string)
	go func() {
		warnings, _ := v.ValidateCreate(t.Context(), &lax)
		waiting <- warnings
	}()
	close(c.delivered)
	if warnings := <-waiting; len(warnings) != 1 || !strings.Contains(warnings[0], "policy strict counts the same requests") {
		t.Errorf("warnings %q of a call that waited for the objects", warnings)
	}
	expectOneHandler(t, c)
}

func TestIndex_ReadsACacheThatFailedBefore(t *testing.T) {
	c := cacheWith(of(t, "shop", "strict", 1, validSpec))
	c.err = errors.New("the cache has not started")
	v := rateLimitPolicies(c.index())
	lax := of(t, "shop", "lax", 0, laxSpec)
	if warnings, err := v.ValidateCreate(t.Context(), &lax); err != nil || len(warnings) != 1 || warnings[0] != warnOthersUnavailable {
		t.Errorf("error %v, warnings %q", err, warnings)
	}
	c.err = nil
	for range 2 {
		if warnings, _ := v.ValidateCreate(t.Context(), &lax); len(warnings) != 1 || !strings.Contains(warnings[0], "policy strict counts the same requests") {
			t.Errorf("warnings %q after the cache has started", warnings)
		}
	}
	expectOneHandler(t, c)
}

func expectOneHandler(t *testing.T, c *fakeCache) {
	t.Helper()
	for kind, handlers := range c.handlers {
		if len(handlers) != 1 {
			t.Errorf("%d handlers of events about %s, want 1", len(handlers), kind)
		}
	}
}

// Requests are validated in parallel, while events arrive.
func TestIndex_ValidatesInParallel(t *testing.T) {
	w := newWorld(t, 3)
	x := w.cache.index()
	candidates := make([]*v1alpha1.RateLimitPolicy, 8)
	for i := range candidates {
		candidates[i] = w.anyPolicy("shop", fmt.Sprintf("candidate-%d", i)).(*v1alpha1.RateLimitPolicy) //nolint:forcetypeassert // with a namespace
	}
	var requests sync.WaitGroup
	ctx := t.Context()
	for _, p := range candidates {
		requests.Go(func() {
			for range 50 {
				x.compile(ctx, p)
				x.addBudgets(ctx, newEntry(p, x.identity), new(verdict))
			}
		})
	}
	for range 200 {
		if w.random.IntN(4) > 0 {
			w.cache.put(w.anyPolicy("shop", oneOf(w, "a", "b", "c")))
		} else {
			w.cache.remove(&v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: oneOf(w, "a", "b", "c")}}, false)
		}
	}
	requests.Wait()
	r := reference{w.cache, compile.DefaultIdentity(), func() {}}
	for _, p := range candidates {
		got, want := x.compile(ctx, p), r.compile(ctx, stored.Policies{Namespaced: []*v1alpha1.RateLimitPolicy{p}}, p.Namespace)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("verdict %v after the requests, want %v", got, want)
		}
	}
}

// An edit of one policy allocates as much as with fewer policies.
func TestValidateUpdate_CostsWhatTheEditChanges(t *testing.T) {
	for _, namespaces := range []int{1, 100} {
		allocations := map[int]float64{}
		for _, policies := range []int{100, 1000} {
			edit := newEdits(t, policies, namespaces, 0, pathSpec)
			edit()
			allocations[policies] = testing.AllocsPerRun(20, edit)
		}
		if few, many := allocations[100], allocations[1000]; many > few+10 {
			t.Errorf("an edit in one of %d namespaces allocates %.0f times with 100 policies, and %.0f times with 1000", namespaces, few, many)
		}
	}
}

// The policy is older than another one that has its counters: that one is not enforced any more, and makes no policy redundant.
func TestIndex_ComparesWithPoliciesThatKeepTheirCounters(t *testing.T) {
	const strict = `{axis: User, limit: 5, window: 1m}`
	x := cacheWith(of(t, "shop", "a", 1, strict), of(t, "shop", "b", 1, strict)).index()
	old := of(t, "shop", "old", 9, `{axis: User, limit: 20, window: 1m, counterName: a}`)
	want := []string{"spec: has no effect, because policy b counts the same requests and is at least as strict"}
	if got := x.compile(t.Context(), &old); !slices.Equal(got.warnings, want) {
		t.Errorf("warnings %q, want %q", got.warnings, want)
	}
}
