package ruleset

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
)

// A Limiter that is being deleted keeps its connections for Forget. One that no longer exists leaves nothing behind.
func TestStop_DropsWhatItRemembersOfALimiterThatNoLongerExists(t *testing.T) {
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
	r.stop(name, "uid-1")
	if r.limiters[name] != l || l.stopped != "uid-1" || cancelled {
		t.Errorf("while it is being deleted: remembered %v, stopped %q, cancelled %v", r.limiters[name] == l, l.stopped, cancelled)
	}
	r.stop(name, "")
	if len(r.limiters) != 0 || !cancelled {
		t.Errorf("after the deletion: %d limiters, cancelled %v", len(r.limiters), cancelled)
	}
	r.stop(name, "") // again
	if next := r.limiter(name); next == l || next.stopped != "" {
		t.Error("a new Limiter of the same name continues the previous one")
	}
}
