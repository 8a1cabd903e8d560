package throttle

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAttempts_CountDenialsAndFailures(t *testing.T) {
	var all attempts
	all.count(nil, nil)
	all.count([]string{"16 of 20 per 1m used"}, nil)
	all.count(nil, apierrors.NewTooManyRequests("over the limit", 0))
	if all.passed != 2 || all.warned != 1 || all.denied != 1 || all.denial == nil || all.failed != nil {
		t.Errorf("after a write, a write with a warning and a denial: %v", &all)
	}
	lost := errors.New("connection refused")
	all.count(nil, lost)
	if !errors.Is(all.failed, lost) || all.passed != 2 || all.denied != 1 {
		t.Errorf("after a failed write: %v", &all)
	}
}

func TestQuantile_SortsACopyOfTheDurations(t *testing.T) {
	var all []time.Duration
	for i := 100; i >= 1; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	for percent, want := range map[int]time.Duration{50: 50 * time.Millisecond, 99: 99 * time.Millisecond, 100: 100 * time.Millisecond} {
		if got := quantile(all, percent); got != want {
			t.Errorf("the %dth percentile of 1 … 100 ms is %v, want %v", percent, got, want)
		}
	}
	if all[0] != 100*time.Millisecond {
		t.Error("the durations were sorted in place")
	}
}

func TestProbePolicy_MatchesTheSameWritesInItsOwnNamespace(t *testing.T) {
	p := everything()
	probe := probePolicy(p)
	if got := probe.Spec.Match.Kubernetes.Resources[0].Resources[0]; got != "*/*" {
		t.Errorf("resources %s, want */*", got)
	}
	if got := probe.Spec.Match.Kubernetes.Namespaces; len(got) != 1 || got[0] != probeNamespace {
		t.Errorf("namespaces %v, want only %s", got, probeNamespace)
	}
}
