package ruleset

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/test/fixture"
)

// blackHole is a Redis that accepts calls and never answers.
type blackHole struct{ publish.Store }

func (blackHole) Inspect(ctx context.Context) (publish.Redis, error) {
	<-ctx.Done()
	return publish.Redis{}, ctx.Err()
}

func (blackHole) Clear(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("Clear was called without a deadline")
	}
	<-ctx.Done()
	return ctx.Err()
}

func (blackHole) Close() error { return nil }

// Nine Limiters are more than the controller reconciles at the same time.
func TestSetupWithManager_UnresponsiveRedisDelaysNoStatusOfOtherLimiters(t *testing.T) {
	h := newHarness(t)
	h.reconciler.publishWait = publishWait
	open := h.reconciler.Open
	h.reconciler.Open = func(l *v1alpha1.Limiter) (publish.Store, error) {
		if l.Name != limiterName.Name {
			return blackHole{}, nil
		}
		return open(l)
	}
	for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"} {
		h.createLimiter(name, func(s *v1alpha1.LimiterSpec) {
			s.PolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "test"}}
		})
	}
	h.manage(time.Second, func(next http.RoundTripper) http.RoundTripper { return next })
	for generation, units := range []int64{0, 7, 8} {
		if units == 0 {
			h.createPolicy("daily", nil)
		} else {
			h.editPolicy("daily", limit(units))
		}
		fixture.Await(h, "the policy is Ready", func() bool {
			if revision := h.activeRevision(); revision != "" {
				h.heartbeat(revision, "a")
			}
			s := h.policy("daily").Status
			return s.ObservedGeneration == int64(generation)+1 && len(s.Conditions) == 4 && s.Conditions[3].Status == yes
		})
	}
	var limiters v1alpha1.LimiterList
	h.must(h.kube.List(t.Context(), &limiters, client.InNamespace(limiterName.Namespace)))
	for _, l := range limiters.Items { // deletion does not wait for the black hole
		if l.Name != limiterName.Name {
			h.reconciler.remove(t.Context(), types.NamespacedName{Namespace: l.Namespace, Name: l.Name}, "")
		}
	}
}
