package ruleset

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
)

func TestRemove_DropsWhatItRemembersOfALimiterThatNoLongerExists(t *testing.T) {
	r, err := New(Config{Clock: time.Now, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "limits", Name: "edge"}
	l := r.limiter(name)
	cancelled := false
	done := make(chan publish.Delivery, 1)
	done <- publish.Delivery{}
	l.publishing.call = &publishCall{done: done, cancel: func() { cancelled = true }}
	r.remove(t.Context(), name, "uid-1")
	if r.limiters[name] != l || !cancelled {
		t.Errorf("while it is being deleted: remembered %v, cancelled %v", r.limiters[name] == l, cancelled)
	}
	for range 2 {
		r.remove(t.Context(), name, "")
		if len(r.limiters) != 0 {
			t.Errorf("after the deletion: %d limiters", len(r.limiters))
		}
	}
	if next := r.limiter(name); next == l || next.stopped != "" {
		t.Error("a new Limiter of the same name continues the previous one")
	}
}
